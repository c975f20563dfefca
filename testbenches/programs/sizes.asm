# Products of many waves and of many rows, and words all over the buffer, of a core of `tiny`: the rest of what `ndp coverage` has of CORE
# in minutes (docs/verification.md, "Coverage").
.random 0x100 bursts=256 seed=1 kind=normal
.matrix 0x1000 rows=8 cols=7680 seed=2 kind=normal
.matrix 0x8000 rows=1365 cols=64 seed=3 kind=normal

load dst=0, cols=5440, address=0x100
dot src=0, dst=63, cols=5440, count=5, address=0x1000
load dst=1, cols=2688, batch=2, address=0x100
dot src=1, dst=50, cols=2688, batch=2, count=3, address=0x1000
load dst=2, cols=7680, address=0x100
dot src=2, dst=62, cols=7680, count=2, address=0x1000
load dst=53, cols=64, address=0x100
dot src=53, dst=42, cols=64, count=1365, address=0x8000
dot src=53, dst=21, cols=64, count=682, address=0x8000
zero dst=0, count=1
zero dst=21, count=42
zero dst=42, count=21
zero dst=1, count=62
load dst=42, cols=1000, batch=2, address=0x100
load dst=21, cols=500, batch=4, address=0x100
exp src=42, dst=21, cols=1000
exp src=21, dst=42, cols=300, batch=3
add src=42, other=21, dst=10, cols=700
mul src=21, other=42, dst=5, cols=640, batch=2
max src=10, other=5, dst=53, cols=640
store src=42, cols=1000, address=0x3000
store src=21, cols=260, batch=4, address=0x3100
store src=63, cols=64, address=0x3200
round src=0, dst=63, cols=8
round src=21, dst=42, cols=100
round src=42, dst=20, cols=64
zero dst=0, count=32
axpy src=63, dst=0, cols=64, count=128, address=0x8000
axpy src=21, dst=32, cols=128, count=100, address=0x1000
softmax src=33, dst=33, cols=64
barrier
signal 0xaaaaaaaa
