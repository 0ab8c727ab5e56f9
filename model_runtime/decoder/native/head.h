/* Logits that matter, from the numbers of the head as a checkpoint stores them: weights of 4 bits alone are too coarse for
   the choice among the likeliest tokens, and few rows of a large head are read again. */

#pragma once
#include "lanes.h"
#include "pass.h"

#define NEAR 8       /* below the highest logit; what lies lower has a probability of less than 1/2,980 of the likeliest's */
#define STEPS 4      /* into which one is divided */
#define MOST_NEAR 512 /* rows that are read again */

typedef uint16_t Halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

INLINE Floats stored_numbers(const Stored *head, int64_t at) {
    if (head->format == STORED_FP32) return *(const Floats *)((const float *)head->rows + at);
    const uint16_t *halves = (const uint16_t *)head->rows + at;
    if (head->format == STORED_FP16) return widened(halves);
    return (Floats)(__builtin_convertvector(*(const Halves *)halves, Ints) << 16);
}

/* The least logit of a row that is computed again: NEAR below the highest, or less where too many would be. */
static float least_near(const Stored *head, const float *logits) {
    int64_t counts[NEAR * STEPS] = {0}, whole = head->count / LANES * LANES, near = 0;
    Floats most = spread(-INFINITY);
    for (int64_t i = 0; i < whole; i += LANES) most = larger(*(const Floats *)(logits + i), most);
    float highest = largest(most);
    for (int64_t i = whole; i < head->count; i++) highest = logits[i] > highest ? logits[i] : highest;
    for (int64_t i = 0; i < head->count; i++) {
        float below = highest - logits[i];
        if (below < NEAR) counts[(int)(below * STEPS)]++;
    }
    for (int step = 0; step < NEAR * STEPS; step++)
        if ((near += counts[step]) > MOST_NEAR) return highest - (float)step / STEPS;
    return highest - NEAR;
}

/* Compute logits [first, last) of a row again that are higher than `floor`; x is the row that goes into the head. */
static void compute_stored(const Stored *head, const float *x, float floor, int64_t first, int64_t last, float *logits) {
    for (int64_t i = first; i < last; i++) {
        if (!(logits[i] > floor)) continue;
        Floats sums = {0};
        for (int64_t k = 0; k < head->width; k += LANES)
            sums = fused(stored_numbers(head, i * head->width + k), *(const Floats *)(x + k), sums);
        logits[i] = total(sums);
    }
}
