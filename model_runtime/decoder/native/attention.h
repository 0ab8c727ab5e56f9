/* Attention of one row over an arena's keys and values, for a few of the query heads that share one key head. */

#pragma once
#include "lanes.h"
#include "pass.h"


/* Dot products of `count` queries, `dim` apart, with four keys, to scores that lie `stride` apart. */
INLINE void score_four(
    const float *q, int count, const float *const *keys, int64_t dim, float scale, float *scores, int64_t stride) {
    Floats sums[MOST_QUERIES][4] = {0};
    for (int64_t d = 0; d < dim; d += LANES) {
        Floats key[4];
        for (int i = 0; i < 4; i++) key[i] = *(const Floats *)(keys[i] + d);
        for (int j = 0; j < count; j++) {
            Floats query = *(const Floats *)(q + j * dim + d);
            for (int i = 0; i < 4; i++) sums[j][i] = fused(query, key[i], sums[j][i]);
        }
    }
    for (int j = 0; j < count; j++)
        *(Four *)(scores + j * stride) = folded(sums[j][0], sums[j][1], sums[j][2], sums[j][3]) * scale;
}

/* Scores of `count` queries with keys [keys][dim]; `dim` is a multiple of 16. Beyond them, up to whole lanes, scores are -inf. */
INLINE void score(
    const float *q, int count, const float *k, int64_t keys, int64_t dim, float scale, float *scores, int64_t stride) {
    for (int64_t t = 0; t < keys; t += 4) {
        const float *four[4];
        for (int i = 0; i < 4; i++) four[i] = k + (t + i < keys ? t + i : keys - 1) * dim;
        score_four(q, count, four, dim, scale, scores + t, stride);
    }
    for (int j = 0; j < count; j++)
        for (int64_t t = keys; t % LANES; t++) scores[j * stride + t] = -INFINITY;
}

/* Turn scores into unnormalized shares; returns one over their sum. */
static float weigh(float *scores, int64_t keys) {
    Floats sum = {0}, none = {0}, most = spread(-INFINITY);
    for (int64_t t = 0; t < keys; t += LANES) most = larger(most, *(const Floats *)(scores + t));
    float peak = largest(most);
    for (int64_t t = 0; t < keys; t += LANES) {
        Floats score = *(const Floats *)(scores + t);
        Floats share = chosen(score == -INFINITY, none, exponential(score - peak));
        *(Floats *)(scores + t) = share;
        sum += share;
    }
    return 1.0f / total(sum);
}

/* out[d] = norm * sum of shares[t] * v[t][d] for `count` queries; 64 dimensions at a time stay in registers. */
INLINE void gather_some(
    const float *shares, int64_t stride, int count, const float *v, int64_t keys, int64_t dim, int lanes,
    const float *norms, float *out) {
    Floats sums[MOST_QUERIES][4] = {0};
    for (int64_t t = 0; t < keys; t++) {
        Floats value[4];
        for (int i = 0; i < lanes; i++) value[i] = *(const Floats *)(v + t * dim + i * LANES);
        for (int j = 0; j < count; j++) {
            Floats share = spread(shares[j * stride + t]);
            for (int i = 0; i < lanes; i++) sums[j][i] = fused(share, value[i], sums[j][i]);
        }
    }
    for (int j = 0; j < count; j++)
        for (int i = 0; i < lanes; i++) *(Floats *)(out + j * dim + i * LANES) = sums[j][i] * norms[j];
}

INLINE void gather(
    const float *shares, int64_t stride, int count, const float *v, int64_t keys, int64_t dim, const float *norms,
    float *out) {
    int64_t d = 0;
    for (; d + 64 <= dim; d += 64) gather_some(shares, stride, count, v + d, keys, dim, 4, norms, out + d);
    for (; d < dim; d += LANES) gather_some(shares, stride, count, v + d, keys, dim, 1, norms, out + d);
}

INLINE void attend_some(const float *q, int count, const float *k, const float *v, int64_t keys, int64_t dim,
                        float *scores, int64_t stride, float *out) {
    float norms[MOST_QUERIES];
    score(q, count, k, keys, dim, 1.0f / sqrtf(dim), scores, stride);
    for (int j = 0; j < count; j++) norms[j] = weigh(scores + j * stride, keys);
    gather(scores, stride, count, v, keys, dim, norms, out);
}

/* out [count][dim] = attention of q [count][dim]; `scores` is scratch, [MOST_QUERIES][stride]. */
static void attend_heads(const float *q, int count, const float *k, const float *v, int64_t keys, int64_t dim,
                         float *scores, int64_t stride, float *out) {
    switch (count) { /* constants: sums become registers */
        case 1: attend_some(q, 1, k, v, keys, dim, scores, stride, out); break;
        case 2: attend_some(q, 2, k, v, keys, dim, scores, stride, out); break;
        case 3: attend_some(q, 3, k, v, keys, dim, scores, stride, out); break;
        case 4: attend_some(q, 4, k, v, keys, dim, scores, stride, out); break;
        default: attend_some(q, 5, k, v, keys, dim, scores, stride, out);
    }
}
