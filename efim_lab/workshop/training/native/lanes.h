/* Sixteen lanes of numbers and their bf16 forms, for CPUs with AVX-512 and its bf16 products. */

#pragma once
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma,amx-tile,amx-bf16")
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

/* Sixteen rows of sixteen numbers become columns. */
INLINE void transpose_lanes(Floats rows[LANES]) {
    Floats a[LANES], b[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d x = (__m512d)a[i + j], y = (__m512d)a[i + j + 2];
            b[i + 2 * j] = (Floats)_mm512_unpacklo_pd(x, y), b[i + 2 * j + 1] = (Floats)_mm512_unpackhi_pd(x, y);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        Floats low = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88), high = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
        Floats low2 = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
        Floats high2 = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
        rows[i] = _mm512_shuffle_f32x4(low, low2, 0x88), rows[i + 8] = _mm512_shuffle_f32x4(low, low2, 0xdd);
        rows[i + 4] = _mm512_shuffle_f32x4(high, high2, 0x88), rows[i + 12] = _mm512_shuffle_f32x4(high, high2, 0xdd);
    }
}
