/* Eight lanes: AVX2 with FMA and F16C, and AVX-VNNI where avxvnni.c asks for it. */

#pragma once
#include <immintrin.h>

/* Vectors of sums in 16 registers: of outputs, keys or dimensions, for each of six rows; and the most for fewer rows. */
#define SPAN 2
#define WIDEST 8
#define CHAINS 1 /* sums of an output in fp16 */
#define OFFSET 128
#define GROUP_ROWS 2 /* of an inner loop with weights in groups */

static inline Floats fused(Floats a, Floats b, Floats sum) {
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
}

static inline Floats widened(const uint16_t *halves) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
}

/* Store the lowest byte of each lane, without sign. */
static inline void narrowed(Ints x, uint8_t *bytes) {
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    _mm_storel_epi64((__m128i *)bytes, _mm_packus_epi16(words, words));
}

/* Four bytes in every lane. */
static inline Ints repeated(const uint8_t *bytes) {
    int32_t four;
    memcpy(&four, bytes, sizeof four);
    return (Ints)_mm256_set1_epi32(four);
}

#ifdef HAS_VNNI
#define SIGN_OFFSET 128 /* added to weights with sign, so that they have none */
#define dotted_signed dotted

/* Add to each sum the products of four bytes without sign and four with sign; exact. */
static inline Ints dotted(Ints sums, Ints bytes, Ints with_sign) {
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)bytes, (__m256i)with_sign);
}
#else
#define SIGN_OFFSET 0

/* Add to each sum the products of four bytes without sign and four with sign; exact up to 128 without sign. */
static inline Ints dotted(Ints sums, Ints bytes, Ints with_sign) {
    __m256i pairs = _mm256_maddubs_epi16((__m256i)bytes, (__m256i)with_sign);
    return sums + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* The same of bytes that both have a sign. */
static inline Ints dotted_signed(Ints sums, Ints a, Ints b) {
    return dotted(sums, (Ints)_mm256_abs_epi8((__m256i)a), (Ints)_mm256_sign_epi8((__m256i)b, (__m256i)a));
}

/* Store the lower half of each lane, with sign. */
static inline void halved(Ints x, int16_t *words) {
    __m128i low = _mm256_castsi256_si128((__m256i)x), high = _mm256_extracti128_si256((__m256i)x, 1);
    _mm_storeu_si128((__m128i *)words, _mm_packs_epi32(low, high));
}

/* Sixteen bytes as words, two in a lane. */
static inline Ints widened_bytes(const int8_t *bytes) {
    return (Ints)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)bytes));
}

/* Four words in every two lanes. */
static inline Ints repeated_words(const int16_t *words) {
    int64_t four;
    memcpy(&four, words, sizeof four);
    return (Ints)_mm256_set1_epi64x(four);
}

/* Add to each sum the products of two words. */
static inline Ints dotted_words(Ints sums, Ints a, Ints b) {
    return sums + (Ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

/* Sums of neighbours, of a and then of b. */
static inline Ints paired(Ints a, Ints b) {
    return (Ints)_mm256_permute4x64_epi64(_mm256_hadd_epi32((__m256i)a, (__m256i)b), 0xd8);
}
#endif

static inline float total(Floats x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float largest(Floats x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* The second where one is not a number. */
static inline Floats larger(Floats a, Floats b) { return (Floats)_mm256_max_ps((__m256)a, (__m256)b); }

static inline Floats nearest(Floats x) {
    return (Floats)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* p times two to a whole power; 0 where x, at most 0 and not far from the power, is below -126. */
static inline Floats raised(Floats p, Floats whole, Floats x) {
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32((__m256)whole), _mm256_set1_epi32(127)), 23);
    __m256 counts = _mm256_cmp_ps((__m256)x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ); /* not a number, too */
    return (Floats)_mm256_and_ps(counts, _mm256_mul_ps((__m256)p, (__m256)power));
}

/* Turn pairs of numbers by angles, whose cosine and sine alternate. */
static inline Floats turned(Floats x, Floats angles) {
    __m256 crossed = _mm256_mul_ps(_mm256_permute_ps((__m256)x, 0xb1), _mm256_movehdup_ps((__m256)angles));
    return (Floats)_mm256_fmaddsub_ps((__m256)x, _mm256_moveldup_ps((__m256)angles), crossed);
}

/* Transpose a square: rows[i][d] becomes out[d * stride + i]. Halves come from memory, which spares a third of the
   shuffles. */
INLINE void transpose(const float *const *rows, int64_t d, float *out, int64_t stride) {
    __m256 v[8];
    for (int i = 0; i < 4; i++)
        for (int h = 0; h < 2; h++) {
            __m256 x = _mm256_castps128_ps256(_mm_loadu_ps(rows[i] + d + 4 * h));
            v[4 * h + i] = _mm256_insertf128_ps(x, _mm_loadu_ps(rows[i + 4] + d + 4 * h), 1);
        }
    for (int h = 0; h < 2; h++) {
        __m256d low = (__m256d)_mm256_unpacklo_ps(v[4 * h], v[4 * h + 1]);
        __m256d high = (__m256d)_mm256_unpackhi_ps(v[4 * h], v[4 * h + 1]);
        __m256d next_low = (__m256d)_mm256_unpacklo_ps(v[4 * h + 2], v[4 * h + 3]);
        __m256d next_high = (__m256d)_mm256_unpackhi_ps(v[4 * h + 2], v[4 * h + 3]);
        float *to = out + 4 * h * stride;
        _mm256_storeu_ps(to, (__m256)_mm256_unpacklo_pd(low, next_low));
        _mm256_storeu_ps(to + stride, (__m256)_mm256_unpackhi_pd(low, next_low));
        _mm256_storeu_ps(to + 2 * stride, (__m256)_mm256_unpacklo_pd(high, next_high));
        _mm256_storeu_ps(to + 3 * stride, (__m256)_mm256_unpackhi_pd(high, next_high));
    }
}
