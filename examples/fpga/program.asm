# A layer of a feed-forward network over the neurons that a predictor has chosen, for the core of ecp5.toml.
#
#   h[b][k] = relu(W1[row(k)] . x[b])          y[b] = sum_k h[b][k] * W2[row(k)]
#
# Two vectors of 64 elements, six of 24 neurons. Both matrices have a row per neuron, so one list serves both products.

.random 0x100 bursts=4 seed=1 kind=normal            # x, two beats of each vector
.u32    0x180 3, 7, 8, 19, 22, 2                     # active neurons
.matrix 0x400 rows=24 cols=64 seed=2 kind=normal     # W1, from burst 0x400 of each rank on
.matrix 0x600 rows=24 cols=64 seed=3 kind=normal     # W2

load   dst=0, cols=64, batch=2, address=0x100        # x
list   list=0, count=6, address=0x180
zero   dst=32, count=32                              # the sums of y are empty: eight words for 32 elements
dot    src=0, dst=16, cols=64, batch=2, count=6, address=0x400, list=0
relu   src=16, dst=16, cols=6, batch=2
store  src=16, cols=6, batch=2, address=0x300        # h
axpy   src=16, dst=32, cols=64, batch=2, count=6, address=0x600, list=0
round  src=32, dst=24, cols=64, batch=2
store  src=24, cols=64, batch=2, address=0x310       # y
signal 7                                             # all of it is in DRAM now

.dump 0x300 bursts=2
.dump 0x310 bursts=4
