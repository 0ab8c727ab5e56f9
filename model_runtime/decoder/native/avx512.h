/* Sixteen lanes: AVX-512 with VNNI. */

#pragma once
#include <immintrin.h>

/* Vectors of sums in 32 registers: of outputs, keys or dimensions, for each of six rows; and the most for fewer rows. */
#define SPAN 4
#define WIDEST 4
#define CHAINS 2 /* sums of an output in fp16 */
#define OFFSET 128
#define SIGN_OFFSET 128 /* added to weights with sign, so that they have none */
#define GROUP_ROWS 4    /* of an inner loop with weights in groups */
#define dotted_signed dotted

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

/* Add to each sum the products of four bytes without sign and four with sign; exact. */
static inline Ints dotted(Ints sums, Ints bytes, Ints with_sign) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)bytes, (__m512i)with_sign);
}

static inline float total(Floats x) { return _mm512_reduce_add_ps((__m512)x); }

static inline float largest(Floats x) { return _mm512_reduce_max_ps((__m512)x); }

/* The second where one is not a number. */
static inline Floats larger(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }

static inline Floats nearest(Floats x) {
    return (Floats)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* p times two to a whole power; 0 where x, at most 0 and not far from the power, is below -126. */
static inline Floats raised(Floats p, Floats whole, Floats x) {
    __mmask16 counts = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ); /* not a number, too */
    return (Floats)_mm512_maskz_scalef_ps(counts, (__m512)p, (__m512)whole);
}

/* Turn pairs of numbers by angles, whose cosine and sine alternate. */
static inline Floats turned(Floats x, Floats angles) {
    __m512 crossed = _mm512_mul_ps(_mm512_permute_ps((__m512)x, 0xb1), _mm512_movehdup_ps((__m512)angles));
    return (Floats)_mm512_fmaddsub_ps((__m512)x, _mm512_moveldup_ps((__m512)angles), crossed);
}

/* Transpose a square: rows[i][d] becomes out[d * stride + i]. Quarters come from memory, which spares half of the
   shuffles. */
INLINE void transpose(const float *const *rows, int64_t d, float *out, int64_t stride) {
    __m512 v[16];
    for (int i = 0; i < 4; i++)
        for (int q = 0; q < 4; q++) {
            __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(rows[i] + d + 4 * q));
            x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[i + 4] + d + 4 * q), 1);
            x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[i + 8] + d + 4 * q), 2);
            v[4 * q + i] = _mm512_insertf32x4(x, _mm_loadu_ps(rows[i + 12] + d + 4 * q), 3);
        }
    for (int q = 0; q < 4; q++) {
        __m512d low = (__m512d)_mm512_unpacklo_ps(v[4 * q], v[4 * q + 1]);
        __m512d high = (__m512d)_mm512_unpackhi_ps(v[4 * q], v[4 * q + 1]);
        __m512d next_low = (__m512d)_mm512_unpacklo_ps(v[4 * q + 2], v[4 * q + 3]);
        __m512d next_high = (__m512d)_mm512_unpackhi_ps(v[4 * q + 2], v[4 * q + 3]);
        float *to = out + 4 * q * stride;
        _mm512_storeu_ps(to, (__m512)_mm512_unpacklo_pd(low, next_low));
        _mm512_storeu_ps(to + stride, (__m512)_mm512_unpackhi_pd(low, next_low));
        _mm512_storeu_ps(to + 2 * stride, (__m512)_mm512_unpacklo_pd(high, next_high));
        _mm512_storeu_ps(to + 3 * stride, (__m512)_mm512_unpackhi_pd(high, next_high));
    }
}
