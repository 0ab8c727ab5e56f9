/* Sixteen lanes of numbers: AVX-512 with VNNI.

   Every sum runs over lanes in one fixed order, which depends on nothing but the place in the row. So a row gets the
   same bits in any batch, and a cached token equals a recomputed one. */

#pragma once
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));

static inline Floats spread(float value) { return value - (Floats){0}; }

static inline Floats fused(Floats a, Floats b, Floats sum) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
}

static inline Floats widened(const uint16_t *halves) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
}

/* Store the lowest byte of each lane. */
static inline void narrowed(Ints x, uint8_t *bytes) { _mm_storeu_si128((__m128i *)bytes, _mm512_cvtepi32_epi8((__m512i)x)); }

/* Four bytes in every lane. */
static inline Ints repeated(const uint8_t *bytes) {
    int32_t four;
    memcpy(&four, bytes, sizeof four);
    return (Ints)_mm512_set1_epi32(four);
}

/* Add to sixteen sums the products of four bytes without sign and four with sign each; exact. */
static inline Ints dotted(Ints sums, Ints bytes, Ints with_sign) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)bytes, (__m512i)with_sign);
}

static inline float total(Floats x) { return _mm512_reduce_add_ps((__m512)x); }

static inline float largest(Floats x) { return _mm512_reduce_max_ps((__m512)x); }

static inline Floats chosen(Ints where, Floats a, Floats b) { return (Floats)(((Ints)a & where) | ((Ints)b & ~where)); }

/* The second where one is not a number. */
static inline Floats larger(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }

/* e to the x within 2 units in the last place: Cody-Waite reduction, then the series to the sixth power. */
static inline Floats exponential(Floats x) {
    x = larger(x, spread(-87.0f));
    x = chosen(x > 88.0f, spread(88.0f), x);
    Floats shifter = spread(12582912.0f), n = fused(x, spread(1.44269504f), shifter) - shifter;
    Floats r = fused(n, spread(-0.693359375f), x);
    r = fused(n, spread(2.12194440e-4f), r);
    Floats p = spread(1.0f / 720);
    p = fused(p, r, spread(1.0f / 120));
    p = fused(p, r, spread(1.0f / 24));
    p = fused(p, r, spread(1.0f / 6));
    p = fused(p, r, spread(0.5f));
    p = fused(p, r, spread(1.0f));
    p = fused(p, r, spread(1.0f));
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    return p * (Floats)power;
}
