/* Logits that matter, from the numbers of the head as a checkpoint stores them: weights of 4 bits alone are too coarse for
   the choice among the likeliest tokens, and few rows of a large head are read again. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define NEAR 8.0f /* below the highest logit; what lies lower has a probability of less than 1/2,980 of the likeliest's */

typedef uint16_t Halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

INLINE Floats stored_numbers(const Stored *head, int64_t at) {
    if (head->format == STORED_FP32) return *(const Floats *)((const float *)head->rows + at);
    const uint16_t *halves = (const uint16_t *)head->rows + at;
    if (head->format == STORED_FP16) return widened(halves);
    return (Floats)(__builtin_convertvector(*(const Halves *)halves, Ints) << 16);
}

/* The least logit of a row that is computed again. */
static float near_highest(const Stored *head, const float *logits) {
    float highest = -INFINITY;
    for (int64_t i = 0; i < head->count; i++) highest = logits[i] > highest ? logits[i] : highest;
    return highest - NEAR;
}

/* Compute logits [first, last) of a row again that are at least `floor`; x is the row that goes into the head. */
static void compute_stored(const Stored *head, const float *x, float floor, int64_t first, int64_t last, float *logits) {
    for (int64_t i = first; i < last; i++) {
        if (!(logits[i] >= floor)) continue;
        Floats sums = {0};
        for (int64_t k = 0; k < head->width; k += LANES)
            sums = fused(stored_numbers(head, i * head->width + k), *(const Floats *)(x + k), sums);
        logits[i] = total(sums);
    }
}
