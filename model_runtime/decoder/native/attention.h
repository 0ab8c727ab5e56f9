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
    float *queries;    /* [MOST_QUERIES][dim], in units whose scores are exponents of two */
    float *out;        /* [MOST_QUERIES][width], sums of values in shares of the likeliest key so far */
    Floats *totals;    /* [MOST_QUERIES], sums of shares in lanes */
    float *peaks;      /* [MOST_QUERIES], the highest score so far */
    float *keys;       /* [dim][KEYS], the block at hand */
    const float *k;    /* [position][own] */
    const float *v;    /* [position][width], which keys end with if dim is larger than `own` */
    int64_t own, dim, width;
    float cap;         /* of scores in those units, 0 for none */
} Attention;

static Attention attention_scratch(float *memory, int64_t own, int64_t dim, int64_t width) {
    Attention a = {.queries = memory, .own = own, .dim = dim, .width = width};
    a.out = a.queries + MOST_QUERIES * dim;
    a.keys = a.out + MOST_QUERIES * width;
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

/* Lay out rows [count][dim] as [dim][KEYS]; lanes beyond them repeat the last one. */
static void turn_rows(const float *k, int64_t count, int64_t dim, float *out) {
    for (int64_t t = 0; t < count; t += LANES) {
        const float *rows[LANES];
        for (int i = 0; i < LANES; i++) rows[i] = k + (t + i < count ? t + i : count - 1) * dim;
        for (int64_t d = 0; d < dim; d += LANES) transpose(rows, d, out + d * KEYS + t, KEYS);
    }
}

/* Make the block of `count` keys from position `t` on the one at hand. */
static void load_keys(const Attention *a, int64_t t, int64_t count) {
    turn_rows(a->k + t * a->own, count, a->own, a->keys);
    if (a->dim > a->own) turn_rows(a->v + t * a->width, count, a->width, a->keys + a->own * KEYS);
}

/* cap * tanh(x / cap) */
INLINE Floats capped(Floats x, float cap) {
    return cap - 2.0f * cap / (1.0f + exponential(x * (2.0f / cap)));
}

/* Scores [n][KEYS] of `n` queries with the block's keys; those before `low` and from `count` on are -inf. */
INLINE void score(const Attention *a, int64_t first, int n, int64_t low, int64_t count, float *scores) {
    int side = SPAN_OF(n);
    int64_t dim = a->dim;
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
    for (int64_t i = 0; a->cap && i < n * KEYS; i += LANES)
        *(Floats *)(scores + i) = capped(*(const Floats *)(scores + i), a->cap);
    for (int64_t t = 0; t < low; t++)
        for (int j = 0; j < n; j++) scores[j * KEYS + t] = -INFINITY;
    for (int64_t t = count; t < KEYS; t++)
        for (int j = 0; j < n; j++) scores[j * KEYS + t] = -INFINITY;
}

/* Turn scores into shares of the likeliest key so far; factors[j] brings earlier sums into the same unit. */
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

INLINE void attend_tile(const Attention *a, int64_t first, int n, int64_t t, int64_t low, int64_t count) {
    float scores[TILE * KEYS] __attribute__((aligned(64))), factors[TILE];
    int64_t width = a->width;
    float *out = a->out + first * width;
    const float *shares = scores + low, *v = a->v + (t + low) * width;
    score(a, first, n, low, count, scores);
    weigh(a, first, n, scores, factors);
    count -= low;
    int64_t d = 0;
    int side = SPAN_OF(n);
    for (; d + side * LANES <= width; d += side * LANES)
        gather_some(shares, factors, n, v + d, count, width, side, out + d);
    for (; d + SPAN * LANES <= width; d += SPAN * LANES)
        gather_some(shares, factors, n, v + d, count, width, SPAN, out + d);
    for (; d < width; d += LANES) gather_some(shares, factors, n, v + d, count, width, 1, out + d);
}

/* Let the queries from `first` to `last` attend to the keys at hand, which begin at position `t`, from the `low`-th to
   `count`. */
ONCE void attend_block(const Attention *a, int64_t first, int64_t last, int64_t t, int64_t low, int64_t count) {
    for (; first + TILE <= last; first += TILE) attend_tile(a, first, TILE, t, low, count);
    switch (last - first) { /* constants: sums become registers */
        case 5: attend_tile(a, first, 5, t, low, count); break;
        case 4: attend_tile(a, first, 4, t, low, count); break;
        case 3: attend_tile(a, first, 3, t, low, count); break;
        case 2: attend_tile(a, first, 2, t, low, count); break;
        case 1: attend_tile(a, first, 1, t, low, count); break;
    }
}

/* Begin `rows` rows of `heads` queries: with nothing, or with the share of each head's sink, which has no value. */
static void begin_queries(const Attention *a, int64_t rows, int64_t heads, const float *sinks) {
    for (int64_t i = 0; i < rows * heads; i++) {
        a->peaks[i] = sinks ? sinks[i % heads] * 1.44269504f : -INFINITY;
        a->totals[i] = (Floats){sinks ? 1.0f : 0.0f};
    }
    memset(a->out, 0, rows * heads * a->width * sizeof(float));
}

/* Where the block that holds row `t` ends. */
INLINE int64_t block_end(int64_t t) { return (t / KEYS + 1) * KEYS; }

/* Let `count` queries attend to all keys from `begin` to `end`, a multiple of KEYS. */
static void attend_prefix(const Attention *a, int64_t count, int64_t begin, int64_t end) {
    for (int64_t t = begin, next; t < end; t = next) {
        next = block_end(t);
        load_keys(a, t, next - t);
        attend_block(a, 0, count, t, 0, next - t);
    }
}

/* Let the queries from `first` on, `heads` for each of `rows` rows, attend to keys from `begin` on. The first row sees those
   up to `position`, each further row one more. */
static void attend_rows(const Attention *a, int64_t first, int64_t rows, int64_t heads, int64_t begin, int64_t position) {
    int64_t end = position + rows;
    for (int64_t t = begin, next; t < end; t = next) {
        next = block_end(t);
        int64_t size = next - t, count = end < next ? end - t : size, whole = next - 1 <= position ? 0 : next - 1 - position;
        load_keys(a, t, count);
        /* Rows before `whole` see only a part of the block: the rest must not even be multiplied by 0. */
        for (int64_t row = t <= position ? 0 : t - position; row < rows && row < whole; row++)
            attend_block(a, first + row * heads, first + (row + 1) * heads, t, 0, position + row + 1 - t);
        if (whole < rows) attend_block(a, first + whole * heads, first + rows * heads, t, 0, size);
    }
}

/* The same where each row sees the last `window` keys alone. Blocks begin at multiples of KEYS for all rows, wherever these
   begin to see. */
static void attend_windows(
    const Attention *a, int64_t first, int64_t rows, int64_t heads, int64_t window, int64_t position) {
    int64_t begin = position + 1 > window ? position + 1 - window : 0, end = position + rows;
    for (int64_t t = begin / KEYS * KEYS; t < end; t += KEYS) {
        int64_t size = end - t < KEYS ? end - t : KEYS;
        load_keys(a, t, size);
        for (int64_t row = t <= position ? 0 : t - position, next; row < rows; row = next) {
            int64_t last = position + row + 1 - t, low = last - window;
            if (low >= size) break;
            next = row + 1;
            while (last >= size && low <= 0 && next < rows && next + position + 1 - t - window <= 0) next++;
            attend_block(a, first + row * heads, first + next * heads, t, low > 0 ? low : 0, last < size ? last : size);
        }
    }
}
