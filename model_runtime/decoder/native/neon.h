/* Four lanes: NEON of ARM CPUs of 64 bits, with dot products. */

#pragma once
#include <arm_neon.h>

/* Vectors of sums in 32 registers: of outputs, keys or dimensions, for each of six rows; and the most for fewer rows. */
#define SPAN 4
#define WIDEST 16
#define CHAINS 1 /* sums of an output in fp16 */
#define OFFSET 0 /* both factors have a sign */
#define SIGN_OFFSET 0
#define GROUP_ROWS 3 /* of an inner loop with weights in groups */
#define dotted_signed dotted

static inline Floats fused(Floats a, Floats b, Floats sum) {
    return (Floats)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
}

static inline Floats widened(const uint16_t *halves) { return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves))); }

/* Store the lowest byte of each lane. */
static inline void narrowed(Ints x, uint8_t *bytes) {
    int16x4_t words = vmovn_s32((int32x4_t)x);
    uint32_t four = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
    memcpy(bytes, &four, sizeof four);
}

/* Four bytes in every lane. */
static inline Ints repeated(const uint8_t *bytes) {
    int32_t four;
    memcpy(&four, bytes, sizeof four);
    return (Ints)vdupq_n_s32(four);
}

/* Add to each sum the products of four bytes with sign; exact. */
static inline Ints dotted(Ints sums, Ints bytes, Ints with_sign) {
    return (Ints)vdotq_s32((int32x4_t)sums, vreinterpretq_s8_s32((int32x4_t)bytes), vreinterpretq_s8_s32((int32x4_t)with_sign));
}

static inline float total(Floats x) {
    float32x4_t pairs = vpaddq_f32((float32x4_t)x, (float32x4_t)x);
    return vgetq_lane_f32(pairs, 0) + vgetq_lane_f32(pairs, 1);
}

static inline float largest(Floats x) { return vmaxvq_f32((float32x4_t)x); }

/* The second where one is not a number. */
static inline Floats larger(Floats a, Floats b) { return chosen(a > b, a, b); }

static inline Floats nearest(Floats x) { return (Floats)vrndnq_f32((float32x4_t)x); }

/* p times two to a whole power; 0 where x, at most 0 and not far from the power, is below -126. */
static inline Floats raised(Floats p, Floats whole, Floats x) {
    Ints power = ((Ints)vcvtq_s32_f32((float32x4_t)whole) + 127) << 23;
    return chosen(x < spread(-126.0f), (Floats){0}, p * (Floats)power);
}

/* Turn pairs of numbers by angles, whose cosine and sine alternate. */
static inline Floats turned(Floats x, Floats angles) {
    float32x4_t a = (float32x4_t)angles, signs = {-1, 1, -1, 1};
    Floats crossed = (Floats)vmulq_f32(vmulq_f32(vrev64q_f32((float32x4_t)x), vtrn2q_f32(a, a)), signs);
    return fused(x, (Floats)vtrn1q_f32(a, a), crossed);
}

/* Transpose a square: rows[i][d] becomes out[d * stride + i]. */
INLINE void transpose(const float *const *rows, int64_t d, float *out, int64_t stride) {
    float32x4_t a = vld1q_f32(rows[0] + d), b = vld1q_f32(rows[1] + d);
    float32x4_t c = vld1q_f32(rows[2] + d), e = vld1q_f32(rows[3] + d);
    float64x2_t even = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), odd = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
    float64x2_t next_even = vreinterpretq_f64_f32(vtrn1q_f32(c, e)), next_odd = vreinterpretq_f64_f32(vtrn2q_f32(c, e));
    vst1q_f32(out, vreinterpretq_f32_f64(vtrn1q_f64(even, next_even)));
    vst1q_f32(out + stride, vreinterpretq_f32_f64(vtrn1q_f64(odd, next_odd)));
    vst1q_f32(out + 2 * stride, vreinterpretq_f32_f64(vtrn2q_f64(even, next_even)));
    vst1q_f32(out + 3 * stride, vreinterpretq_f32_f64(vtrn2q_f64(odd, next_odd)));
}
