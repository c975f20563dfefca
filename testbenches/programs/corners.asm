# Nearly every instruction of a core of `tiny`, with special operands, far addresses, and words that are no instructions: what `ndp coverage` has of
# CORE in minutes (docs/verification.md, "Coverage").
.random 0x5555540 bursts=32 seed=1 kind=bits
.random 0xaaaaa80 bursts=32 seed=2 kind=special
.random 0x2000 bursts=32 seed=3 kind=normal
.matrix 0x5554000 rows=45 cols=256 seed=4 kind=bits
.matrix 0x2aab000 rows=45 cols=256 seed=5 kind=special
.matrix 0x3000 rows=40 cols=250 seed=6 kind=normal weights=int8
.matrix 0x4000 rows=40 cols=250 seed=7 kind=normal weights=int4
.u32 0x7ffff00 3, 44, 19, 7, 0, 1, 2, 30, 31, 32, 33, 8, 9, 10, 11, 12, 40

load dst=0, cols=256, batch=4, address=0x5555540
load dst=8, cols=256, batch=4, address=0xaaaaa80
load dst=16, cols=250, batch=3, address=0x2000
list list=16, count=17, address=0x7ffff00
list list=992, count=17, address=0x7ffff00
dot src=0, dst=22, cols=256, batch=4, count=45, address=0x5554000
dot src=8, dst=26, cols=249, batch=3, count=17, address=0x2aab000, list=16
dot src=16, dst=29, cols=250, batch=2, count=40, address=0x3000, weights=int8
dot src=16, dst=31, cols=250, batch=1, count=40, address=0x4000, weights=int4
dot src=16, dst=31, cols=64, count=20, address=0x5554000, heads=2
zero dst=32, count=32
axpy src=22, dst=32, cols=128, batch=2, count=17, address=0x5554000, list=992
select src=29, dst=30, cols=40, batch=1, list=512, from=0
axpy src=30, dst=32, cols=256, batch=1, count=40, address=0x2aab000, list=512, selected=1
merge dst=32, cols=256, batch=1, address=0x6000
barrier
export src=32, count=32, address=0x2aaa800
barrier
import dst=32, count=32, address=0x2aaa800
.word 0x5bc8fbbcbde5c0994164d8399f767c45
.word 0xd76d4330f1446beab0c11fdecb91ce37
.word 0x87b0b125ec1d7da0a6eb8c9ebd69fe29
.word 0xc6a5387777330bdbd7210dff076ce2ef
.word 0x0d464138a62332553fc1ea36f17fd374
.word 0x5f2dd97f1cfb10f62827688de6a16a3b
.word 0x617959ce3f1f65a8de5271007814e8a2
.word 0x3fd4235992edcf451a1afe878b33e968
.word 0x687c966c377b9aa2
round src=32, dst=20, cols=256, batch=1
softmax src=0, dst=0, cols=250, batch=3
relu src=8, dst=40, cols=250, batch=4
scale src=8, dst=8, cols=256, scalar=0x5a5a
scale src=0, dst=48, cols=255, scalar=0xa5a5
add src=0, other=8, dst=50, cols=256, batch=2
sub src=8, other=0, dst=52, cols=256
mul src=16, other=8, dst=54, cols=33, batch=3
max src=16, other=8, dst=56, cols=250
silu src=16, dst=58, cols=256
gelu src=16, dst=60, cols=250, batch=2
div src=16, other=8, dst=62, cols=250
append src=16, cols=60, batch=3, row=77, address=0x1234560
select src=29, dst=30, cols=40, list=608, row=4096
barrier
store src=22, cols=45, batch=4, address=0xfffff00
store src=20, cols=256, batch=1, address=0xaaaaa00
store src=0, cols=250, batch=3, address=0x9000
barrier
signal 0xffffffff
.word 0x5bc8fbbcbde5c0994164d8399f767c45
.word 0xd76d4330f1446beab0c11fdecb91ce37
.word 0x87b0b125ec1d7da0a6eb8c9ebd69fe29
.word 0xc6a5387777330bdbd7210dff076ce2ef
.word 0x0d464138a62332553fc1ea36f17fd374
.word 0x5f2dd97f1cfb10f62827688de6a16a3b
.word 0x617959ce3f1f65a8de5271007814e8a2
.word 0x3fd4235992edcf451a1afe878b33e968
.word 0x687c966c377b9aa2bb2edb20035b7399
.word 0xde11cc9dea959c212e9c82b1478c281d
.word 0xc30d8b7628dbd25e63b229f1c4069545
.word 0x9e30691c238642ea126a1e48cc11d357
.word 0x21da8978206f5c6671e0c07e9e115e4b
.word 0x015c33b2df1461aaf8eb18b900745130
.word 0xf5cae3bf3729c619c60a3cab359eeefb
.word 0x2a9eba0cdf561d802a759159fb7ff337
.word 0x32ea6928f6236bf2504b74ba4a0fe75d
.word 0xa02fdaa1ad864c44e049548e8a0a8c96
.word 0xf7f35634f0e3cd972e81d66d346c6e2b
.word 0xf7108e96f770c2263266aa3bb0cde917
.word 0x0585a01c4c7d6df0621aef57e4cc4132
.word 0xef901b932a7c18806a3753915c76f18a
.word 0x54f46a6910acff0043892dfc254cb864
.word 0x960d5a8f9a656aafd14125844d25deb3
signal 0x55555555
