/* Products of rows with matrices whose rows are fp16, or int8 with a scale each.

   A row of activations for int8 is split into two digits: x = unit * (254 * high + low), both in -127 .. 127, so that
   what is lost is the rounding of the weights. Digits are stored with 128 added; `sums` of the weights takes it out. */

#pragma once
#include "lanes.h"
#include "pass.h"

/* Of an inner loop at most: vectors of outputs, and rows of activations or of their digits. 24 sums stay in registers. */
#define SIDE 4
#define WIDTH 6

/* Digits of one row; `in` is a multiple of 64. */
static void split_digits(const float *x, int64_t in, uint8_t *digits, float *unit) {
    Floats most = {0};
    for (int64_t k = 0; k < in; k += LANES) {
        Floats v = *(const Floats *)(x + k);
        most = larger(most, larger(v, -v));
    }
    float range = largest(most);
    float step = range / (127.0f * DIGIT), scale = range > 0 ? 127.0f * DIGIT / range : 0;
    Floats shifter = spread(12582912.0f); /* adding and taking it away rounds to whole numbers */
    for (int64_t k = 0; k < in; k += LANES) {
        Floats whole = (*(const Floats *)(x + k) * scale + shifter) - shifter;
        Floats high = (whole * (1.0f / DIGIT) + shifter) - shifter;
        Floats low = whole - high * DIGIT;
        narrowed(__builtin_convertvector(high, Ints) + 128, digits + k);
        narrowed(__builtin_convertvector(low, Ints) + 128, digits + in + k);
    }
    *unit = step;
}

/* Sums of `side` vectors of outputs with `rows` rows, fp16. Lanes are outputs, so nothing is folded; inputs with even and
   with odd numbers have sums of their own, since one sum waits for itself. With `fetch`, the weights of the next block
   are asked for: memory is slow to begin. */
INLINE void block_fp16(
    const Matrix *m, int64_t n, const float *x, int rows, int side, int fetch, float *out, int64_t stride) {
    const uint16_t *w = (const uint16_t *)m->weights + n * m->in, *next = w + side * LANES * m->in;
    Floats sums[2][WIDTH][SIDE] = {0};
    for (int64_t k = 0; k < m->in; k += 2) {
        for (int i = 0; fetch && i < side; i++) __builtin_prefetch(next + i * LANES * m->in + LANES * k, 0, 2);
        for (int odd = 0; odd < 2; odd++) {
            Floats weights[SIDE];
            for (int i = 0; i < side; i++) weights[i] = widened(w + i * LANES * m->in + LANES * (k + odd));
            for (int j = 0; j < rows; j++) {
                Floats v = spread(x[j * m->in + k + odd]);
                for (int i = 0; i < side; i++) sums[odd][j][i] = fused(weights[i], v, sums[odd][j][i]);
            }
        }
    }
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < side; i++) *(Floats *)(out + j * stride + i * LANES) = sums[0][j][i] + sums[1][j][i];
}

/* The same of rows of two digits each, int8. */
INLINE void block_int8(const Matrix *m, int64_t n, const uint8_t *x, const float *units, int rows, int side, int fetch,
                       float *out, int64_t stride) {
    const int8_t *w = (const int8_t *)m->weights + n * m->in, *next = w + side * LANES * m->in;
    Ints sums[WIDTH][SIDE] = {0};
    for (int64_t k = 0; k < m->in; k += 4) {
        Ints weights[SIDE];
        for (int i = 0; i < side; i++) weights[i] = *(const Ints *)(w + i * LANES * m->in + LANES * k);
        for (int i = 0; fetch && i < side; i++) __builtin_prefetch(next + i * LANES * m->in + LANES * k, 0, 2);
        for (int j = 0; j < 2 * rows; j++) {
            Ints digits = repeated(x + j * m->in + k);
            for (int i = 0; i < side; i++) sums[j][i] = dotted(sums[j][i], digits, weights[i]);
        }
    }
    for (int i = 0; i < side; i++) {
        Ints base = *(const Ints *)(m->sums + n + i * LANES);
        Floats scale = *(const Floats *)(m->scales + n + i * LANES);
        for (int j = 0; j < rows; j++) {
            Floats high = __builtin_convertvector(sums[2 * j][i] - base, Floats);
            Floats low = __builtin_convertvector(sums[2 * j + 1][i] - base, Floats);
            *(Floats *)(out + j * stride + i * LANES) = (high * (float)DIGIT + low) * scale * units[j];
        }
    }
}

INLINE void rows_fp16(const Matrix *m, int64_t n, const Rows *x, int64_t rows, int side, float *out, int64_t stride) {
    for (int64_t j = 0; j < rows;) {
        const float *row = x->wide + j * m->in;
        float *to = out + j * stride;
        int64_t left = rows - j;
        if (left >= 6) block_fp16(m, n, row, 6, side, j == 0, to, stride), j += 6;
        else if (left >= 4) block_fp16(m, n, row, 4, side, j == 0, to, stride), j += 4;
        else if (left >= 2) block_fp16(m, n, row, 2, side, j == 0, to, stride), j += 2;
        else block_fp16(m, n, row, 1, side, j == 0, to, stride), j += 1;
    }
}

INLINE void rows_int8(const Matrix *m, int64_t n, const Rows *x, int64_t rows, int side, float *out, int64_t stride) {
    for (int64_t j = 0; j < rows;) {
        const uint8_t *row = x->digits + 2 * j * m->in;
        float *to = out + j * stride;
        int64_t left = rows - j;
        if (left >= 3) block_int8(m, n, row, x->units + j, 3, side, j == 0, to, stride), j += 3;
        else if (left == 2) block_int8(m, n, row, x->units + j, 2, side, j == 0, to, stride), j += 2;
        else block_int8(m, n, row, x->units + j, 1, side, j == 0, to, stride), j += 1;
    }
}

/* Add the bias of the outputs from `first` up to `last` to a row. */
static void add_bias(const Matrix *m, int64_t first, int64_t last, float *out) {
    for (int64_t n = first; n < last; n += LANES) *(Floats *)(out + n) += *(const Floats *)(m->bias + n);
}

/* out[j][n] = weights[n] . x[j] for the outputs from `first` up to `last`, multiples of LANES. */
static void multiply(
    const Matrix *m, int is_int8, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    int64_t n = first;
    if (is_int8) {
        for (; n + 4 * LANES <= last; n += 4 * LANES) rows_int8(m, n, x, rows, 4, out + n, stride);
        for (; n < last; n += LANES) rows_int8(m, n, x, rows, 1, out + n, stride);
    } else {
        for (; n + 2 * LANES <= last; n += 2 * LANES) rows_fp16(m, n, x, rows, 2, out + n, stride);
        for (; n < last; n += LANES) rows_fp16(m, n, x, rows, 1, out + n, stride);
    }
}
