/* Products with weights in groups of GROUP inputs with a scale each, whole numbers of 4 or 8 bits.

   Activations are rounded, too: to a byte each, with a unit for the same group. That rounding is finer than the
   rounding of weights to 4 bits, and half as many products are to be summed. A row is [in] digits, [in / GROUP] units, and as many
   sums of a group's digits, which take out the offset that leaves weights without a sign. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define GROUP 32
#define NIBBLE_OFFSET 8 /* added to weights of 4 bits where they are packed */
#define GROUP_SIDE (SPAN / 2 > STRIP / LANES ? SPAN / 2 : STRIP / LANES) /* vectors of outputs of several rows */

INLINE float *units_of(const uint8_t *digits, int64_t in) { return (float *)(digits + in); }

INLINE int32_t *sums_of(const uint8_t *digits, int64_t in) { return (int32_t *)(units_of(digits, in) + in / GROUP); }

/* Digits of one row with their units and sums; `in` is a multiple of 64. */
static void split_groups(const float *x, int64_t in, uint8_t *digits) {
    for (int64_t g = 0; g < in / GROUP; g++) {
        const float *from = x + g * GROUP;
        Floats most = {0};
        for (int k = 0; k < GROUP; k += LANES) {
            Floats v = *(const Floats *)(from + k);
            most = larger(most, larger(v, -v));
        }
        float range = largest(most), scale = range > 0 ? 127.0f / range : 0;
        units_of(digits, in)[g] = range / 127.0f;
        Ints sums = {0};
        for (int k = 0; k < GROUP; k += LANES) {
            Ints whole = __builtin_convertvector(rounded(*(const Floats *)(from + k) * scale), Ints);
            narrowed(whole & 255, digits + g * GROUP + k);
            sums += whole;
        }
        int32_t sum = 0;
        for (int i = 0; i < LANES; i++) sum += sums[i];
        sums_of(digits, in)[g] = sum;
    }
}

/* Sums of a group of `side` vectors of outputs with `rows` rows; the weights of the first vector begin at `w`. */
INLINE void sum_nibbles(const uint8_t *w, const uint8_t *x, int64_t in, int rows, int side, Ints sums[][WIDEST]) {
    for (int k = 0; k < GROUP; k += 8) {
        Ints low[WIDEST], high[WIDEST];
        for (int i = 0; i < side; i++) {
            Ints both = *(const Ints *)(w + strip_at(i, in / 2, 4) + STRIP * k / 2);
            low[i] = both & 0x0f0f0f0f, high[i] = both >> 4 & 0x0f0f0f0f;
        }
        for (int j = 0; j < rows; j++) {
            Ints first = repeated(x + 2 * j * in + k), second = repeated(x + 2 * j * in + k + 4);
            for (int i = 0; i < side; i++) {
                sums[j][i] = dotted(sums[j][i], low[i], first);
                sums[j][i] = dotted(sums[j][i], high[i], second);
            }
        }
    }
}

/* The same with weights of 8 bits. */
INLINE void sum_bytes(const uint8_t *w, const uint8_t *x, int64_t in, int rows, int side, Ints sums[][WIDEST]) {
    for (int k = 0; k < GROUP; k += 4) {
        Ints weights[WIDEST];
        for (int i = 0; i < side; i++) {
            weights[i] = *(const Ints *)(w + strip_at(i, in, 4) + STRIP * k);
            if (SIGN_OFFSET) weights[i] ^= (int32_t)0x80808080;
        }
        for (int j = 0; j < rows; j++) {
            Ints digits = repeated(x + 2 * j * in + k);
            for (int i = 0; i < side; i++) sums[j][i] = dotted_signed(sums[j][i], weights[i], digits);
        }
    }
}

INLINE void block_groups(const Matrix *m, int64_t n, const uint8_t *x, int bits, int rows, int side, int fetch, float *out,
                         int64_t stride) {
    int64_t in = m->in, groups = in / GROUP, bytes = in * bits / 8;
    const uint8_t *w = (const uint8_t *)m->weights + n * bytes;
    const uint16_t *scales = (const uint16_t *)m->scales + n * groups;
    const char *next = (const char *)(fetch ? w + side * LANES * bytes : w);
    Floats totals[WIDTH][WIDEST] = {0};
    for (int64_t g = 0; g < groups; g++) {
        Ints sums[WIDTH][WIDEST];
        for (int k = 0; k < GROUP * bits / 8; k += 4) fetch_next(next, bytes, g * GROUP * bits / 8 + k, side, 1);
        for (int j = 0; j < rows; j++) {
            int32_t offset = bits == 4 ? NIBBLE_OFFSET : SIGN_OFFSET;
            Ints start = -offset * sums_of(x + 2 * j * in, in)[g] - (Ints){0};
            for (int i = 0; i < side; i++) sums[j][i] = start;
        }
        const uint8_t *here = w + STRIP * g * GROUP * bits / 8;
        if (bits == 4) sum_nibbles(here, x + g * GROUP, in, rows, side, sums);
        else sum_bytes(here, x + g * GROUP, in, rows, side, sums);
        for (int i = 0; i < side; i++) {
            Floats scale = widened(scales + strip_at(i, groups, 1) + STRIP * g);
            for (int j = 0; j < rows; j++) {
                Floats factor = scale * units_of(x + 2 * j * in, in)[g];
                totals[j][i] = fused(__builtin_convertvector(sums[j][i], Floats), factor, totals[j][i]);
            }
        }
    }
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < side; i++) *(Floats *)(out + j * stride + i * LANES) = totals[j][i];
}

INLINE void rows_groups(
    const Matrix *m, int64_t n, const Rows *x, int bits, int64_t rows, int side, float *out, int64_t stride) {
    for (int64_t j = 0; j < rows;) {
        const uint8_t *row = x->digits + 2 * j * m->in;
        float *to = out + j * stride;
        int64_t left = rows - j, taken = left == GROUP_ROWS + 1 ? GROUP_ROWS - 1 : left > GROUP_ROWS ? GROUP_ROWS : left;
        switch (taken) {
            case 4: block_groups(m, n, row, bits, 4, side, j == 0, to, stride); break;
            case 3: block_groups(m, n, row, bits, 3, side, j == 0, to, stride); break;
            case 2: block_groups(m, n, row, bits, 2, side, j == 0, to, stride); break;
            case 1: block_groups(m, n, row, bits, 1, side, j == 0, to, stride); break;
        }
        j += taken;
    }
}

INLINE void multiply_groups(
    const Matrix *m, const Rows *x, int bits, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    enum { ONE = SPAN_OF(2) };
    int64_t n = first;
    if (rows == 1) EACH(ONE) block_groups(m, n, x->digits, bits, 1, ONE, 1, out + n, stride);
    EACH(GROUP_SIDE) rows_groups(m, n, x, bits, rows, GROUP_SIDE, out + n, stride);
    if (GROUP_SIDE > STRIP / LANES) EACH(STRIP / LANES) rows_groups(m, n, x, bits, rows, STRIP / LANES, out + n, stride);
}
