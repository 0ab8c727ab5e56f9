/* Products of rows with matrices whose rows are fp16, or int8 with a scale each.

   A row of activations for int8 is split into two digits: x = unit * (254 * high + low), both in -127 .. 127, so that
   what is lost is the rounding of the weights. Digits are stored with 128 added; `sums` of the weights takes it out. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define BLOCK 4 /* weight rows of one inner loop, fp16 */
#define SIDE 4  /* vectors of outputs of one, int8 */
#define WIDTH 6 /* rows of activations, or of their digits, of one: 24 sums stay in registers */

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

/* Sums of BLOCK weight rows with `count` activation rows, fp16. With `fetch`, each line of weights that is read asks for
   the one of the next block: memory is slow to begin. */
INLINE void block_fp16(
    const Matrix *m, int64_t n, const float *x, int count, int fetch, float *out, int64_t stride) {
    const uint16_t *w = (const uint16_t *)m->weights + n * m->in;
    Floats sums[WIDTH][BLOCK] = {0};
    for (int64_t k = 0; k < m->in; k += LANES) {
        Floats row[BLOCK];
        for (int i = 0; i < BLOCK; i++) row[i] = widened(w + i * m->in + k);
        if (fetch && k % 32 == 0)
            for (int i = 0; i < BLOCK; i++) __builtin_prefetch(w + (BLOCK + i) * m->in + k, 0, 2);
        for (int j = 0; j < count; j++) {
            Floats v = *(const Floats *)(x + j * m->in + k);
            for (int i = 0; i < BLOCK; i++) sums[j][i] = fused(row[i], v, sums[j][i]);
        }
    }
    for (int j = 0; j < count; j++)
        *(Four *)(out + j * stride) = folded(sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
}

/* Sums of `side` vectors of outputs with `rows` rows of two digits each. Lanes are outputs, so nothing is folded. */
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

static void some_fp16(const Matrix *m, int64_t n, const Rows *x, int64_t rows, float *out, int64_t stride) {
    int64_t j = 0, in = m->in;
    if (rows == 1) block_fp16(m, n, x->wide, 1, 1, out, stride), j = 1;
    else if (rows < 4) block_fp16(m, n, x->wide, 2, 1, out, stride), j = 2;
    else block_fp16(m, n, x->wide, 4, 1, out, stride), j = 4;
    for (; j + 6 <= rows; j += 6) block_fp16(m, n, x->wide + j * in, 6, 0, out + j * stride, stride);
    for (; j + 4 <= rows; j += 4) block_fp16(m, n, x->wide + j * in, 4, 0, out + j * stride, stride);
    for (; j + 2 <= rows; j += 2) block_fp16(m, n, x->wide + j * in, 2, 0, out + j * stride, stride);
    if (j < rows) block_fp16(m, n, x->wide + j * in, 1, 0, out + j * stride, stride);
}

INLINE void rows_int8(const Matrix *m, int64_t n, const Rows *x, int64_t rows, int side, float *out, int64_t stride) {
    int64_t in = 2 * m->in, j = rows < 3 ? rows : 3;
    if (rows == 1) block_int8(m, n, x->digits, x->units, 1, side, 1, out, stride);
    else if (rows == 2) block_int8(m, n, x->digits, x->units, 2, side, 1, out, stride);
    else block_int8(m, n, x->digits, x->units, 3, side, 1, out, stride);
    for (; j + 3 <= rows; j += 3)
        block_int8(m, n, x->digits + j * in, x->units + j, 3, side, 0, out + j * stride, stride);
    if (j + 2 == rows) block_int8(m, n, x->digits + j * in, x->units + j, 2, side, 0, out + j * stride, stride);
    if (j + 1 == rows) block_int8(m, n, x->digits + j * in, x->units + j, 1, side, 0, out + j * stride, stride);
}

/* Add the bias of the outputs from `first` up to `last` to a row. */
static void add_bias(const Matrix *m, int64_t first, int64_t last, float *out) {
    for (int64_t n = first; n < last; n += LANES) *(Floats *)(out + n) += *(const Floats *)(m->bias + n);
}

/* out[j][n] = weights[n] . x[j] for the outputs from `first` up to `last`, multiples of LANES. */
static void multiply(
    const Matrix *m, int is_int8, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    int64_t n = rows > 0 ? first : last;
    if (!is_int8) {
        for (; n < last; n += BLOCK) some_fp16(m, n, x, rows, out + n, stride);
        return;
    }
    for (; n + SIDE * LANES <= last; n += SIDE * LANES) rows_int8(m, n, x, rows, SIDE, out + n, stride);
    for (; n < last; n += LANES) rows_int8(m, n, x, rows, 1, out + n, stride);
}
