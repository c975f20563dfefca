# A product at batch 1, 4 and 16, one after the other, for `ndp power` (docs/variants.md).
.random 0x1000 bursts=512 seed=1 kind=normal
.matrix 0x10000 rows=16 cols=1024 seed=2 kind=normal
load    dst=0, cols=1024, batch=16, address=0x1000
barrier
dot     src=0, dst=40, cols=1024, batch=1, count=16, address=0x10000
barrier
dot     src=0, dst=44, cols=1024, batch=4, count=16, address=0x10000
barrier
dot     src=0, dst=48, cols=1024, batch=16, count=16, address=0x10000
barrier
signal  1
