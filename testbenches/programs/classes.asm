# One product of each class for `ndp power`: dot at batch 1 and 4, axpy, softmax, one after the other (docs/power.md).
.random 0x1000 bursts=512 seed=1 kind=normal
.random 0x1800 bursts=4 seed=4 kind=normal
.matrix 0x10000 rows=16 cols=4096 seed=2 kind=normal
.matrix 0x20000 rows=16 cols=4096 seed=3 kind=normal

load    dst=0, cols=4096, batch=4, address=0x1000
load    dst=30, cols=16, batch=1, address=0x1800
zero    dst=32, count=16
barrier
dot     src=0, dst=24, cols=4096, batch=1, count=16, address=0x10000
barrier
dot     src=0, dst=25, cols=4096, batch=4, count=16, address=0x20000
barrier
axpy    src=30, dst=32, cols=4096, batch=1, count=16, address=0x10000
barrier
softmax src=0, dst=8, cols=4096, batch=4
barrier
round   src=32, dst=48, cols=4096, batch=1
store   src=48, cols=4096, batch=1, address=0x9000
store   src=24, cols=16, batch=1, address=0x9400
store   src=25, cols=16, batch=4, address=0x9500
store   src=8, cols=4096, batch=4, address=0xa000
signal  1
