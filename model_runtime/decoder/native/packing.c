/* Rounds the weights of a product, and packs them as passes read them: in strips of 16 outputs, whose bytes lie in turns.

   Rows are rounded as in quantization.py, and groups as in ggml's Q4_0 and Q8_0. Rows come in fp32, some
   thousands at a time; rows and columns that are missing in the last strip and group are zeros. */

#include "target.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
TARGET("avx2,fma,f16c") /* which every set has */
#endif

#define STRIP 16            /* outputs */
#define TURN 4              /* bytes of an output in turn */
#define GROUP 32            /* inputs of an output with one scale */
#define LEAST_KEPT 0.1      /* of all groups, that rounding leaves as they are if they were rounded before */
#define NIBBLE_OFFSET 8     /* added to weights of 4 bits, which have no sign then: see groups.h */
#define LARGEST_INT8 127
#define SMALLEST_DIVISOR FLT_MIN
#define AT_ONCE 8           /* numbers that are compared at once */
#define INFINITE_HALF 0x7c00

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The nearest number in fp16, of two the even one. */
static uint16_t half_of(float x) {
    uint32_t sign = bits_of(x) >> 16 & 0x8000, bits = bits_of(x) & 0x7fffffff;
    if (bits >= bits_of(65536.0f)) return (uint16_t)(sign | INFINITE_HALF);
    if (bits < bits_of(0x1p-14f)) /* the last bit of 0.5 is the least number that fp16 has */
        return (uint16_t)(sign | (bits_of(float_of(bits) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13);
}

static float widened(uint16_t half) {
    uint32_t digits = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
    if (half & INFINITE_HALF) return float_of(sign | (digits + (112u << 23)));
    return float_of(sign | bits_of(float_of(digits + (113u << 23)) - 0x1p-14f));
}

/* A group of whole numbers, and their scale. */
typedef struct {
    int8_t whole[GROUP];
    uint16_t scale;
} Rounded;

/* Round a group with the scale by which `largest` becomes `most`; return whether that changes a number. */
static int round_group(const float *x, float largest, int most, Rounded *to) {
    to->scale = half_of(largest / (float)most);
    float scale = widened(to->scale), divisor = scale == 0 ? INFINITY : scale;
    float low = most == LARGEST_INT8 ? -LARGEST_INT8 : -NIBBLE_OFFSET;
    float high = most == LARGEST_INT8 ? LARGEST_INT8 : NIBBLE_OFFSET - 1;
    int changed = 0;
    for (int i = 0; i < GROUP; i++) {
        float whole = rintf(x[i] / divisor);
        whole = whole < low ? low : whole;
        whole = whole > high ? high : whole;
        to->whole[i] = (int8_t)whole;
        changed |= whole * scale != x[i];
    }
    return changed;
}

/* The number of the largest magnitude in a group, of two the negative one. */
static float largest_of(const float *x) {
    float high[AT_ONCE], low[AT_ONCE];
    for (int j = 0; j < AT_ONCE; j++) high[j] = low[j] = x[j];
    for (int i = AT_ONCE; i < GROUP; i += AT_ONCE)
        for (int j = 0; j < AT_ONCE; j++) {
            high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
            low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
        }
    for (int j = 1; j < AT_ONCE; j++) {
        high[0] = high[j] > high[0] ? high[j] : high[0];
        low[0] = low[j] < low[0] ? low[j] : low[0];
    }
    return -low[0] >= high[0] ? low[0] : high[0];
}

/* Round a group to 4 bits by a scale that leaves it as it is, if there is one. */
static int round_again(const float *x, float largest, Rounded *to) {
    Rounded other;
    for (int most = 7; most; most--)
        for (int sign = 1; sign >= -1; sign -= 2)
            if (!round_group(x, largest, sign * most, &other) && (other.scale & 0x7fff) < INFINITE_HALF) {
                *to = other;
                return 0;
            }
    return 1;
}

/* Lay a group's bytes out in its strip; `to` is where the group's first output would begin. */
static void place_group(const int8_t *whole, int64_t bits, int64_t lane, uint8_t *to) {
    uint8_t bytes[GROUP];
    if (bits == 8) memcpy(bytes, whole, GROUP);
    else /* four inputs in the lower bits of four bytes, and the next four in the higher ones */
        for (int i = 0; i < GROUP / 2; i++) {
            const int8_t *pair = whole + i / TURN * 2 * TURN + i % TURN;
            bytes[i] = (uint8_t)((pair[0] + NIBBLE_OFFSET) | (pair[TURN] + NIBBLE_OFFSET) << 4);
        }
    for (int64_t i = 0; i < GROUP * bits / 8; i += TURN) memcpy(to + i * STRIP + lane * TURN, bytes + i, TURN);
}

/* Pack rows in groups; the first time each gets the scale of its largest number. Return how many groups that changed,
   or -1 if fp16 does not hold a scale. */
static int64_t pack_groups(const float *rows, int64_t count, int64_t columns, int64_t bits, int64_t inputs, int is_again,
                           uint8_t *weights, uint16_t *scales) {
    int64_t groups = inputs / GROUP, bytes = GROUP * bits / 8, changed = 0;
    for (int64_t row = 0; row < (count + STRIP - 1) / STRIP * STRIP; row++) {
        int64_t strip = row / STRIP * STRIP, lane = row % STRIP;
        for (int64_t g = 0; g < groups; g++) {
            int64_t there = row < count ? columns - g * GROUP : 0;
            float x[GROUP] = {0};
            if (there > 0) memcpy(x, rows + row * columns + g * GROUP, sizeof(float) * (there < GROUP ? there : GROUP));
            Rounded to;
            float largest = largest_of(x);
            int is_changed = round_group(x, bits == 4 ? largest : fabsf(largest), bits == 4 ? -8 : LARGEST_INT8, &to);
            if ((to.scale & 0x7fff) >= INFINITE_HALF) return -1;
            if (is_again && (!is_changed || round_again(x, largest, &to))) continue;
            changed += is_changed;
            place_group(to.whole, bits, lane, weights + strip * groups * bytes + g * bytes * STRIP);
            scales[strip * groups + g * STRIP + lane] = to.scale;
        }
    }
    return changed;
}

/* Pack `count` rows of `columns` numbers in groups, with scales in fp16. Return 0 if that does not hold one of them. */
int efim_pack_groups(const float *rows, int64_t count, int64_t columns, int64_t bits, int64_t inputs, uint8_t *weights,
                     uint16_t *scales) {
    int64_t all = (count + STRIP - 1) / STRIP * STRIP * (inputs / GROUP);
    int64_t changed = pack_groups(rows, count, columns, bits, inputs, 0, weights, scales);
    if (changed > 0 && bits == 4 && (double)changed / all < 1 - LEAST_KEPT)
        pack_groups(rows, count, columns, bits, inputs, 1, weights, scales);
    return changed >= 0;
}

static float scale_of(const float *x, int64_t count) {
    float most[AT_ONCE] = {SMALLEST_DIVISOR};
    int64_t i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE)
        for (int j = 0; j < AT_ONCE; j++) most[j] = fabsf(x[i + j]) > most[j] ? fabsf(x[i + j]) : most[j];
    for (; i < count; i++) most[0] = fabsf(x[i]) > most[0] ? fabsf(x[i]) : most[0];
    for (int j = 1; j < AT_ONCE; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0] / LARGEST_INT8;
}

/* Pack `count` rows of `columns` numbers in int8, with a scale of each row in fp32, and the sums of the digits' offset. */
void efim_pack_rows(const float *rows, int64_t count, int64_t columns, int64_t inputs, int8_t *weights, float *scales,
                    int32_t *sums) {
    for (int64_t row = 0; row < count; row++) {
        const float *x = rows + row * columns;
        float scale = scale_of(x, columns);
        int8_t *strip = weights + row / STRIP * STRIP * inputs + row % STRIP * TURN;
        int32_t sum = 0;
        for (int64_t at = 0; at < columns; at += GROUP) {
            int8_t digits[GROUP] = {0};
            int64_t there = columns - at < GROUP ? columns - at : GROUP;
            for (int64_t i = 0; i < there; i++) digits[i] = (int8_t)rintf(x[at + i] / scale);
            for (int64_t i = 0; i < there; i++) sum += digits[i];
            for (int64_t i = 0; i < GROUP; i += TURN) memcpy(strip + (at + i) * STRIP, digits + i, TURN);
        }
        scales[row] = scale, sums[row] = sum * 128;
    }
}

#ifdef __x86_64__
TARGET_END
#endif
