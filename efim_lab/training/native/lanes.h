/* Sixteen lanes of numbers and their bf16 forms, for CPUs with AVX-512 and its bf16 products. */

#pragma once
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma")
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef uint16_t Bf16;
typedef __m512 Floats;

INLINE Floats spread(float value) { return _mm512_set1_ps(value); }

INLINE Floats widened(const Bf16 *x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x)), 16));
}

INLINE void narrowed(Bf16 *to, Floats x) { _mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x)); }

/* 2 to the x, within 3e-6 of it. */
INLINE Floats power_of_two(Floats x) {
    Floats whole = _mm512_roundscale_ps(x, 0), rest = _mm512_sub_ps(x, whole), p = spread(1.33335581e-3f);
    p = _mm512_fmadd_ps(p, rest, spread(9.61812911e-3f));
    p = _mm512_fmadd_ps(p, rest, spread(5.55041087e-2f));
    p = _mm512_fmadd_ps(p, rest, spread(2.40226507e-1f));
    p = _mm512_fmadd_ps(p, rest, spread(6.93147181e-1f));
    p = _mm512_fmadd_ps(p, rest, spread(1.0f));
    return _mm512_scalef_ps(p, whole);
}

#define LOG2_E 1.44269504f
