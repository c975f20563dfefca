"""Exact reference of docs/numerics.md, written from that document alone: nothing is shared with the RTL or the Rust model.

A number is its FP16 bit pattern: a Python int in the scalar modules, an element of a numpy uint16 array in `vector` and
`decoder`. The scalar modules compute with Python integers only; `vector` is the fast path, with its proofs in its comments.

    fp16         rounding of rationals, add, sub, mul, div, maximum, relu
    dot          the exact dot product, special values included
    exp          exp of a number, and its two parts
    softmax      probabilities of one row of scores
    enclosure    integers around e^x, pi, the normal distribution, cosine, sine; rounding once they agree
    activations  SiLU and GELU of a number
    exponential  E(D), the sampler's exponential of a non-positive fixed-point number
    layernorm    LayerNorm of one vector
    rmsnorm      RMSNorm of one vector
    rotary       cosines and sines of a position, the rotation of a head
    sampler      SplitMix64 and the choice of the next token
    vector       the element-wise operations, rotation and matrix-vector products on whole arrays
    quantised    INT4 and INT8 weights, and the model that has them
    config       what an architecture's config.json says, and what is refused
    decoder      the decoders of OPT, LLaMA, Mistral and Falcon with their KV cache, and generation
    checkpoint   safetensors and config.json
    tokenizer    byte-level BPE of a tokenizer.json
"""
