signal 9
.word 0xff
zero dst=0, count=0
signal 10
