# Instructions of a core of `tiny` that are too large for it, and lists of many sizes (docs/verification.md, "Coverage").
.random 0x100 bursts=64 seed=1 kind=normal
list list=0, count=4, address=0x100
list list=0, count=500, address=0x100
list list=1024, count=1023, address=0x100
list list=2048, count=2040, address=0x100
list list=3072, count=200, address=0x100
list list=4080, count=16, address=0x100
load dst=0, cols=8192, address=0x100
add src=1023, other=1023, dst=1023, cols=16384, batch=4, heads=8
add src=1023, other=512, dst=256, cols=16384, batch=4, heads=1
relu src=1023, dst=1023, cols=16383, batch=3, heads=8
axpy src=1000, dst=1000, cols=16383, batch=4, count=16383, address=0x100
dot src=1000, dst=1000, cols=8000, batch=4, count=8388607, address=0x100
dot src=0, dst=63, cols=8064, count=16777215, address=0x100
axpy src=0, dst=63, cols=16384, batch=4, count=200, address=0x100
round src=1023, dst=1023, cols=16384, batch=4
round src=512, dst=1023, cols=8191, batch=4
zero dst=1023, count=1023
zero dst=0, count=16777215
export src=700, count=5000000, address=0x100
import dst=700, count=11184810, address=0x100
round src=0, dst=16, cols=64
