/* Products of rows with matrices whose rows are fp16, or int8 with a scale each: bytes.h or words.h, whichever an
   instruction set is better at; or in groups with a scale each: groups.h. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define STRIP 16 /* outputs whose weights lie side by side */
#define EACH(SIDE) for (; n + (SIDE) * LANES <= last; n += (SIDE) * LANES)
#define WIDTH 6  /* rows of activations, or of their digits, of an inner loop at most */

/* Where the weights of the vector `i` of outputs begin, `inputs` of each output side by side. */
INLINE int64_t strip_at(int i, int64_t in, int inputs) {
    return i * LANES / STRIP * STRIP * in + i * LANES % STRIP * inputs;
}

/* Ask for the weights that the next block has where this one has its input k: memory is slow to begin. */
INLINE void fetch_next(const char *next, int64_t in, int64_t k, int side, int bytes) {
    for (int i = 0; i < side * LANES; i += STRIP) __builtin_prefetch(next + (i * in + STRIP * k) * bytes, 0, 2);
}

/* What numbers of one row are multiplied by to be whole ones of at most two digits, and the unit that undoes it. */
static float scale_of(const float *x, int64_t in, float *unit) {
    Floats most = {0};
    for (int64_t k = 0; k < in; k += LANES) {
        Floats v = *(const Floats *)(x + k);
        most = larger(most, larger(v, -v));
    }
    float range = largest(most);
    *unit = range / (127.0f * DIGIT);
    return range > 0 ? 127.0f * DIGIT / range : 0;
}

/* Adding and taking it away rounds to whole numbers. */
INLINE Floats rounded(Floats x) { return (x + spread(12582912.0f)) - spread(12582912.0f); }

#include INT8_PRODUCTS
#include "groups.h"

/* Sums of `side` vectors of outputs with `rows` rows, fp16. Lanes are outputs, so nothing is folded; with two chains,
   inputs with even and with odd numbers have separate sums. With `fetch`, the next block's weights are asked for. */
INLINE void block_fp16(
    const Matrix *m, int64_t n, const float *x, int rows, int side, int fetch, float *out, int64_t stride) {
    const uint16_t *w = (const uint16_t *)m->weights + n * m->in;
    const char *next = (const char *)(fetch ? w + side * LANES * m->in : w);
    Floats sums[CHAINS][WIDTH][WIDEST / CHAINS] = {0};
    for (int64_t k = 0; k < m->in; k += 2) {
        fetch_next(next, m->in, k, side, 2);
        for (int odd = 0; odd < 2; odd++) {
            Floats weights[WIDEST / CHAINS], (*to)[WIDEST / CHAINS] = sums[odd % CHAINS];
            for (int i = 0; i < side; i++) weights[i] = widened(w + strip_at(i, m->in, 1) + STRIP * (k + odd));
            for (int j = 0; j < rows; j++) {
                Floats v = spread(x[j * m->in + k + odd]);
                for (int i = 0; i < side; i++) to[j][i] = fused(weights[i], v, to[j][i]);
            }
        }
    }
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < side; i++) {
            Floats sum = sums[0][j][i];
            if (CHAINS == 2) sum += sums[CHAINS - 1][j][i];
            *(Floats *)(out + j * stride + i * LANES) = sum;
        }
}

INLINE void rows_fp16(const Matrix *m, int64_t n, const Rows *x, int64_t rows, int side, float *out, int64_t stride) {
    for (int64_t j = 0; j < rows;) {
        const float *row = x->wide + j * m->in;
        float *to = out + j * stride;
        int64_t left = rows - j, taken = left > 8 ? 6 : left > 6 ? 4 : left; /* few rows leave registers idle */
        switch (taken) {
            case 6: block_fp16(m, n, row, 6, side, j == 0, to, stride); break;
            case 5: block_fp16(m, n, row, 5, side, j == 0, to, stride); break;
            case 4: block_fp16(m, n, row, 4, side, j == 0, to, stride); break;
            case 3: block_fp16(m, n, row, 3, side, j == 0, to, stride); break;
            case 2: block_fp16(m, n, row, 2, side, j == 0, to, stride); break;
            case 1: block_fp16(m, n, row, 1, side, j == 0, to, stride); break;
        }
        j += taken;
    }
}

INLINE void rows_int8(const Matrix *m, int64_t n, const Rows *x, int64_t rows, int side, float *out, int64_t stride) {
    for (int64_t j = 0; j < rows;) {
        const uint8_t *row = x->digits + 2 * j * m->in;
        float *to = out + j * stride;
        int64_t left = rows - j, taken = left == 4 ? 2 : left > 3 ? 3 : left;
        switch (taken) {
            case 3: block_int8(m, n, row, x->units + j, 3, side, j == 0, to, stride); break;
            case 2: block_int8(m, n, row, x->units + j, 2, side, j == 0, to, stride); break;
            case 1: block_int8(m, n, row, x->units + j, 1, side, j == 0, to, stride); break;
        }
        j += taken;
    }
}

/* Add the bias of the outputs from `first` up to `last` to a row. */
static void add_bias(const Matrix *m, int64_t first, int64_t last, float *out) {
    for (int64_t n = first; n < last; n += LANES) *(Floats *)(out + n) += *(const Floats *)(m->bias + n);
}

static void multiply_fp16(
    const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    enum { ONE = SPAN_OF(1) / CHAINS, FEW = SPAN_OF(3) / CHAINS, MANY = SPAN / CHAINS };
    int64_t n = first;
    if (rows == 1) EACH(ONE) block_fp16(m, n, x->wide, 1, ONE, 1, out + n, stride);
    if (rows == 2) EACH(FEW) block_fp16(m, n, x->wide, 2, FEW, 1, out + n, stride);
    if (rows == 3) EACH(FEW) block_fp16(m, n, x->wide, 3, FEW, 1, out + n, stride);
    EACH(MANY) rows_fp16(m, n, x, rows, MANY, out + n, stride);
    EACH(STRIP / LANES) rows_fp16(m, n, x, rows, STRIP / LANES, out + n, stride);
}

static void multiply_int8(
    const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    enum { ONE = SPAN_OF(2) };
    int64_t n = first;
    if (rows == 1) EACH(ONE) block_int8(m, n, x->digits, x->units, 1, ONE, 1, out + n, stride);
    EACH(SPAN) rows_int8(m, n, x, rows, SPAN, out + n, stride);
    EACH(STRIP / LANES) rows_int8(m, n, x, rows, STRIP / LANES, out + n, stride);
}

/* Bring a row of a product, which is written as it is, to the form that the model's weights are multiplied with. */
static void prepare_row(const Model *m, const Rows *rows, int64_t row, int64_t in) {
    const float *x = rows->wide + row * in;
    uint8_t *digits = rows->digits + 2 * row * in;
    if (m->form == INT8) split_digits(x, in, digits, rows->units + row);
    if (m->form == GROUPS) split_groups(x, in, digits);
}

/* out[j][n] = weights[n] . x[j] for the outputs from `first` up to `last`, multiples of STRIP. */
static void multiply(
    const Matrix *m, int64_t form, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out, int64_t stride) {
    if (form == GROUPS && m->bits == 4) multiply_groups(m, x, 4, rows, first, last, out, stride);
    else if (form == GROUPS) multiply_groups(m, x, 8, rows, first, last, out, stride);
    else if (form == INT8) multiply_int8(m, x, rows, first, last, out, stride);
    else multiply_fp16(m, x, rows, first, last, out, stride);
}
