// What the generated C++ of a native model is made of: vectors of 16 words, one for each instance of an array.
#ifndef NDP_NATIVE_HPP
#define NDP_NATIVE_HPP

#include "model.hpp"

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

using Word = uint32_t;
// A bit of 16 instances is a vector too: all ones or zeros.
typedef Word Vector __attribute__((vector_size(64), may_alias));
typedef uint64_t Wide __attribute__((vector_size(128)));
constexpr unsigned LANES = 16;

#define NDP_INLINE inline __attribute__((always_inline))
#define NDP_ALONE __attribute__((noinline))

NDP_INLINE Vector all(Word x) { return Vector{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

NDP_INLINE Vector load(const Word* from) { return *reinterpret_cast<const Vector*>(from); }

NDP_INLINE void store(Word* to, Vector x) { *reinterpret_cast<Vector*>(to) = x; }

NDP_INLINE Vector select(Vector c, Vector a, Vector b) { return (c & a) | (~c & b); }

NDP_INLINE Vector equal(Vector a, Vector b) { return (Vector)(a == b); }

NDP_INLINE Vector less(Vector a, Vector b) { return (Vector)(a < b); }

NDP_INLINE Vector test(Vector a, Word mask) { return (Vector)((a & all(mask)) != all(0)); }

// Loops of their own: compilers spend minutes on loops within long functions.
template <unsigned count, unsigned step> NDP_ALONE void spread(Word* to, const Word* from) {
    for (unsigned k = 0; k != count; ++k) to[k] = from[step * k];
}

NDP_ALONE void fill(Word* to, unsigned count, Word x) {
    for (unsigned k = 0; k != count; ++k) to[k] = x;
}

NDP_INLINE Word mul_high(Word a, Word b) { return static_cast<Word>((uint64_t{a} * b) >> 32); }

NDP_INLINE Vector mul_high(Vector a, Vector b) {
    const Wide product = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
    return __builtin_convertvector(product >> 32, Vector);
}

NDP_INLINE Vector parity(Vector x) {
    for (Word by = 16; by != 0; by >>= 1) x ^= x >> all(by);
    return test(x, 1);
}

NDP_INLINE bool any(Vector x) {
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
#else
    Word sum = 0;
    for (unsigned lane = 0; lane != LANES; ++lane) sum |= x[lane];
    return sum != 0;
#endif
}

NDP_ALONE bool any(const Word* from, unsigned count) {
    Word sum = 0;
    for (unsigned k = 0; k != count; ++k) sum |= from[k];
    return sum != 0;
}

// Random contents: SplitMix64.
struct Random {
    uint64_t state;

    Word next() {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return static_cast<Word>(z ^ (z >> 31));
    }

    // Words of a value of that many bits; a bit of an array is all ones or zeros.
    NDP_ALONE void fill(Word* to, unsigned width, unsigned lanes, unsigned stride, bool mask) {
        for (unsigned limb = 0; 32 * limb < width; ++limb) {
            const unsigned bits = width - 32 * limb;
            for (unsigned lane = 0; lane != lanes; ++lane) {
                Word x = next();
                if (bits < 32) x &= (Word{1} << bits) - 1;
                to[limb * stride + lane] = mask ? 0 - x : x;
            }
        }
    }
};

}  // namespace

#endif
