// What the generated C++ of a native model is made of: vectors of words, one for each instance of an array.
#ifndef NDP_NATIVE_HPP
#define NDP_NATIVE_HPP

#include "model.hpp"

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#ifdef NDP_PROFILE
#include <chrono>
#include <map>
#include <string>
#endif

namespace {

using Word = uint32_t;

#define NDP_INLINE inline __attribute__((always_inline))
#define NDP_ALONE __attribute__((noinline))

// Words of 4, 8 or 16 instances. A bit of them is a vector too: all ones or zeros.
template <unsigned lanes> struct Lanes {
    typedef Word Words __attribute__((vector_size(4 * lanes), may_alias));
    typedef uint64_t Wide __attribute__((vector_size(8 * lanes)));
};

template <class V> NDP_INLINE V all(Word x) { return x - V{}; }

template <class V> NDP_INLINE V load(const Word* from) { return *reinterpret_cast<const V*>(from); }

template <class V> NDP_INLINE void store(Word* to, V x) { *reinterpret_cast<V*>(to) = x; }

template <class V> NDP_INLINE V select(V c, V a, V b) { return (c & a) | (~c & b); }

template <class V> NDP_INLINE V equal(V a, V b) { return (V)(a == b); }

template <class V> NDP_INLINE V less(V a, V b) { return (V)(a < b); }

template <class V> NDP_INLINE V test(V a, Word mask) { return (V)((a & all<V>(mask)) != V{}); }

// Loops of their own: compilers spend minutes on loops within long functions.
template <unsigned count, unsigned step> NDP_ALONE Word spread(Word* to, const Word* from) {
    Word moved = 0;
    for (unsigned k = 0; k != count; ++k) {
        moved |= to[k] ^ from[step * k];
        to[k] = from[step * k];
    }
    return moved;
}

NDP_INLINE Word put(Word& to, Word x) {
    const Word moved = to ^ x;
    to = x;
    return moved;
}

// Whether pins have changed since the last call.
template <class T> NDP_INLINE bool changed(T& last, const T& now) {
    if (std::memcmp(&last, &now, sizeof now) == 0) return false;
    std::memcpy(&last, &now, sizeof now);
    return true;
}

NDP_ALONE void fill(Word* to, unsigned count, Word x) {
    for (unsigned k = 0; k != count; ++k) to[k] = x;
}

NDP_INLINE Word mul_high(Word a, Word b) { return static_cast<Word>((uint64_t{a} * b) >> 32); }

template <class V> NDP_INLINE V mul_high(V a, V b) {
    using Wide = typename Lanes<sizeof(V) / sizeof(Word)>::Wide;
    return __builtin_convertvector((__builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide)) >> 32, V);
}

template <class V> NDP_INLINE V parity(V x) {
    for (Word by = 16; by != 0; by >>= 1) x ^= x >> all<V>(by);
    return test(x, 1);
}

template <class V> NDP_INLINE bool any(V x) {
#ifdef __AVX512F__
    if constexpr (sizeof x == 64) return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
#endif
    Word sum = 0;
    for (unsigned lane = 0; lane != sizeof x / sizeof sum; ++lane) sum |= x[lane];
    return sum != 0;
}

// Reports the instances, of `count` that are left of the array, in which a property does not hold.
template <class V>
NDP_ALONE void failed(NdpModel* model, V holds, const char* const* instances, unsigned count, const char* property) {
    for (unsigned lane = 0; lane != sizeof holds / sizeof(Word) && lane != count; ++lane)
        if (!holds[lane]) model->fail(instances[lane], property);
}

// The tasks of the next edge; returns whether there is one.
template <size_t n> NDP_INLINE bool next(uint64_t (&live)[n], uint64_t (&later)[n]) {
    uint64_t any = 0;
    for (size_t k = 0; k != n; ++k) {
        any |= live[k] = later[k];
        later[k] = 0;
    }
    return any != 0;
}

#ifdef NDP_PROFILE
NDP_INLINE uint64_t ticks() {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// When something began, by both clocks.
struct Clock {
    std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
    uint64_t tick = ticks();
};

// Operations of one module in a function, or in a block of it that is counted, for each of its runs.
struct Share {
    unsigned function;
    int counter;
    const char* module;
    unsigned operations;
};

// The time of each function goes to the modules by the operations that they had in it.
template <class S, size_t n>
void add_up(std::vector<NdpShare>& rows, const Share (&all)[n], const S& s, const Clock& began) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began.at;
    const double second = (ticks() - began.tick) / seconds.count();
    const auto operations = [&](const Share& share) {
        return share.operations * static_cast<double>(share.counter < 0 ? s.calls[share.function] : s.counts[share.counter]);
    };
    std::map<unsigned, double> of_function;
    for (const Share& share : all) of_function[share.function] += operations(share);
    std::map<std::string, NdpShare> modules;
    for (const Share& share : all) {
        NdpShare& row = modules.emplace(share.module, NdpShare{share.module, 0, 0}).first->second;
        const double own = operations(share), whole = of_function[share.function];
        row.operations += own;
        if (whole > 0) row.seconds += s.ticks[share.function] / second * own / whole;
    }
    rows.clear();
    for (const auto& row : modules)
        if (row.second.operations > 0) rows.push_back(row.second);
}

#define NDP_COUNT(counter) ++s.counts[counter]
#define NDP_TIME(function, ...)                    \
    do {                                           \
        const uint64_t begin = ticks();            \
        __VA_ARGS__;                               \
        s.ticks[function] += ticks() - begin;      \
        ++s.calls[function];                       \
    } while (false)
#else
#define NDP_COUNT(counter)
#define NDP_TIME(function, ...) __VA_ARGS__
#endif

// What is in no array.
const char* const ALONE[] = {""};

// Random contents.
struct Random {
    uint64_t seed;

    // Words of a register (a memory of depth 1) in each of the instances, one lane each; a bit of an array is all ones or zeros.
    NDP_ALONE void fill(Word* to, unsigned depth, unsigned width, unsigned lanes, unsigned stride, bool mask,
                        const char* const* instances, const char* name) {
        const unsigned limbs = (width + 31) / 32;
        for (unsigned lane = 0; lane != lanes; ++lane) {
            const uint64_t place = ndp_place(ndp_place(seed, instances[lane]), name);
            for (unsigned at = 0; at != depth * limbs; ++at) {
                const unsigned bits = width - 32 * (at % limbs);
                Word x = ndp_contents(place, at);
                if (bits < 32) x &= (Word{1} << bits) - 1;
                to[at * stride + lane] = mask ? 0 - x : x;
            }
        }
    }
};

}  // namespace

#endif
