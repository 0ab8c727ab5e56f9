/* Attention of rows over an arena's keys and values: a block of keys is transposed and used by all queries of a task
   before the next one is read, with a running maximum (FlashAttention, arXiv 2205.14135).

   Blocks end at multiples of KEYS, and a query's sums run over them in order: its bits depend on the row that it begins to
   see and on its own alone. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define TILE 6 /* queries whose sums stay in registers while keys or values pass by */

/* What a task keeps of its queries between two blocks; `attention_scratch` lays it out. */
typedef struct {
    float *queries; /* [MOST_QUERIES][dim], in units whose scores are exponents of two */
    float *out;     /* [MOST_QUERIES][dim], sums of values in shares of the likeliest key so far */
    Floats *totals; /* [MOST_QUERIES], sums of shares in lanes */
    float *peaks;   /* [MOST_QUERIES], the highest score so far */
    float *keys;    /* [dim][KEYS], the block at hand */
} Attention;

static Attention attention_scratch(float *memory, int64_t dim) {
    Attention a = {.queries = memory};
    a.out = a.queries + MOST_QUERIES * dim;
    a.keys = a.out + MOST_QUERIES * dim;
    a.totals = (Floats *)(a.keys + KEYS * dim);
    a.peaks = (float *)(a.totals + MOST_QUERIES);
    return a;
}

/* Two to the x for x of at most 0, within 3 units in the last place; 0 below -126. The coefficients keep the largest error
   of a polynomial of degree 5 least. */
INLINE Floats power_of_two(Floats x) {
    Floats whole = nearest(x), r = x - whole, p = spread(1.3381302537e-03f);
    p = fused(p, r, spread(9.6663685154e-03f));
    p = fused(p, r, spread(5.5503810138e-02f));
    p = fused(p, r, spread(2.4022349038e-01f));
    p = fused(p, r, spread(6.9314718056e-01f));
    p = fused(p, r, spread(1.0f));
    return raised(p, whole, x);
}

/* Lay out a block of `count` keys [count][dim] as [dim][KEYS]; lanes beyond them repeat the last one. */
static void load_keys(const float *k, int64_t count, int64_t dim, float *out) {
    for (int64_t t = 0; t < count; t += LANES) {
        const float *rows[LANES];
        for (int i = 0; i < LANES; i++) rows[i] = k + (t + i < count ? t + i : count - 1) * dim;
        for (int64_t d = 0; d < dim; d += LANES) transpose(rows, d, out + d * KEYS + t, KEYS);
    }
}

/* Scores [n][KEYS] of `n` queries with the block's keys; those from `count` on are -inf. */
INLINE void score(const Attention *a, int64_t first, int n, int64_t count, int64_t dim, float *scores) {
    int side = SPAN_OF(n);
    const float *q = a->queries + first * dim;
    for (int64_t t = 0; t < KEYS; t += side * LANES) {
        Floats sums[TILE][WIDEST] = {0};
        for (int64_t d = 0; d < dim; d++) {
            Floats key[WIDEST];
            for (int i = 0; i < side; i++) key[i] = *(const Floats *)(a->keys + d * KEYS + t + i * LANES);
            for (int j = 0; j < n; j++) {
                Floats query = spread(q[j * dim + d]);
                for (int i = 0; i < side; i++) sums[j][i] = fused(query, key[i], sums[j][i]);
            }
        }
        for (int j = 0; j < n; j++)
            for (int i = 0; i < side; i++) *(Floats *)(scores + j * KEYS + t + i * LANES) = sums[j][i];
    }
    for (int64_t t = count; t < KEYS; t++)
        for (int j = 0; j < n; j++) scores[j * KEYS + t] = -INFINITY;
}

/* Turn scores into shares of the likeliest key so far; factors[j] brings what was summed before into the same unit. */
INLINE void weigh(const Attention *a, int64_t first, int n, float *scores, float *factors) {
    for (int j = 0; j < n; j++) {
        float *row = scores + j * KEYS, before = a->peaks[first + j];
        Floats most = *(const Floats *)row, sum = {0};
        for (int i = 1; i < KEYS / LANES; i++) most = larger(most, *(const Floats *)(row + i * LANES));
        float peak = largest(most);
        peak = peak > before ? peak : before;
        Floats factor = power_of_two(spread(before - peak));
        for (int i = 0; i < KEYS / LANES; i++) {
            Floats share = power_of_two(*(const Floats *)(row + i * LANES) - peak);
            *(Floats *)(row + i * LANES) = share;
            sum += share;
        }
        a->totals[first + j] = fused(a->totals[first + j], factor, sum);
        a->peaks[first + j] = peak;
        factors[j] = factor[0];
    }
}

/* Add the values of `count` keys in their shares, for `side` * LANES dimensions of `n` queries. */
INLINE void gather_some(const float *shares, const float *factors, int n, const float *v, int64_t count, int64_t dim,
                        int side, float *out) {
    Floats sums[TILE][WIDEST];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < side; i++) sums[j][i] = *(const Floats *)(out + j * dim + i * LANES) * factors[j];
    for (int64_t t = 0; t < count; t++) {
        Floats value[WIDEST];
        for (int i = 0; i < side; i++) value[i] = *(const Floats *)(v + t * dim + i * LANES);
        for (int j = 0; j < n; j++) {
            Floats share = spread(shares[j * KEYS + t]);
            for (int i = 0; i < side; i++) sums[j][i] = fused(share, value[i], sums[j][i]);
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < side; i++) *(Floats *)(out + j * dim + i * LANES) = sums[j][i];
}

INLINE void attend_tile(const Attention *a, int64_t first, int n, const float *v, int64_t count, int64_t dim) {
    float scores[TILE * KEYS] __attribute__((aligned(64))), factors[TILE];
    float *out = a->out + first * dim;
    score(a, first, n, count, dim, scores);
    weigh(a, first, n, scores, factors);
    int64_t d = 0;
    int side = SPAN_OF(n);
    for (; d + side * LANES <= dim; d += side * LANES)
        gather_some(scores, factors, n, v + d, count, dim, side, out + d);
    for (; d + SPAN * LANES <= dim; d += SPAN * LANES)
        gather_some(scores, factors, n, v + d, count, dim, SPAN, out + d);
    for (; d < dim; d += LANES) gather_some(scores, factors, n, v + d, count, dim, 1, out + d);
}

/* Let the queries from `first` to `last` attend to the block's first `count` keys and their values v [count][dim]. */
static void attend_block(
    const Attention *a, int64_t first, int64_t last, const float *v, int64_t count, int64_t dim) {
    for (; first + TILE <= last; first += TILE) attend_tile(a, first, TILE, v, count, dim);
    switch (last - first) { /* constants: sums become registers */
        case 5: attend_tile(a, first, 5, v, count, dim); break;
        case 4: attend_tile(a, first, 4, v, count, dim); break;
        case 3: attend_tile(a, first, 3, v, count, dim); break;
        case 2: attend_tile(a, first, 2, v, count, dim); break;
        case 1: attend_tile(a, first, 1, v, count, dim); break;
    }
}

static void begin_queries(const Attention *a, int64_t count, int64_t dim) {
    for (int64_t i = 0; i < count; i++) a->peaks[i] = -INFINITY, a->totals[i] = (Floats){0};
    memset(a->out, 0, count * dim * sizeof(float));
}

/* Where the block that holds row `t` ends. */
INLINE int64_t block_end(int64_t t) { return (t / KEYS + 1) * KEYS; }

/* Let `count` queries attend to all of keys and values k, v [position][dim] from `begin` to `end`, a multiple of KEYS. */
static void attend_prefix(const Attention *a, int64_t count, const float *k, const float *v, int64_t begin, int64_t end,
                          int64_t dim) {
    for (int64_t t = begin, next; t < end; t = next) {
        next = block_end(t);
        load_keys(k + t * dim, next - t, dim, a->keys);
        attend_block(a, 0, count, v + t * dim, next - t, dim);
    }
}

/* Let the queries from `first` on, `heads` for each of `rows` rows, attend to keys and values k, v [position][dim] from
   `begin` on. The first row sees those up to `position`, each further row one more. */
static void attend_rows(const Attention *a, int64_t first, int64_t rows, int64_t heads, int64_t begin, int64_t position,
                        const float *k, const float *v, int64_t dim) {
    int64_t end = position + rows;
    for (int64_t t = begin, next; t < end; t = next) {
        next = block_end(t);
        int64_t size = next - t, count = end < next ? end - t : size, whole = next - 1 <= position ? 0 : next - 1 - position;
        load_keys(k + t * dim, count, dim, a->keys);
        /* Rows before `whole` see a part of the block: what is not theirs to see must not even be multiplied by 0. */
        for (int64_t row = t <= position ? 0 : t - position; row < rows && row < whole; row++)
            attend_block(a, first + row * heads, first + (row + 1) * heads, v + t * dim, position + row + 1 - t, dim);
        if (whole < rows) attend_block(a, first + whole * heads, first + rows * heads, v + t * dim, size, dim);
    }
}
