# Selections of up to 4096 elements.
.random 0x100 bursts=512 seed=1 kind=normal
load dst=0, cols=4096, address=0x100
select src=0, dst=32, cols=4096, list=0, from=0
select src=0, dst=32, cols=4000, list=0, row=0xaaaaa0
select src=0, dst=32, cols=64, batch=1, list=0, row=0x555555
signal 3
