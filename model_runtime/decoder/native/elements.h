/* Computations on one row between products: norms, rotation, activations. */

#pragma once
#include "lanes.h"
#include "pass.h"

/* out = x over its root mean square, times weight. `width` is in whole lanes: `count` numbers, then zeros. */
static void rms_norm(const float *x, int64_t width, int64_t count, const float *weight, float epsilon, float *out) {
    Floats squares = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        Floats v = *(const Floats *)(x + i);
        squares = fused(v, v, squares);
    }
    float scale = 1.0f / sqrtf(total(squares) / count + epsilon);
    for (int64_t i = 0; i < width; i += LANES)
        *(Floats *)(out + i) = *(const Floats *)(x + i) * scale * *(const Floats *)(weight + i);
}

/* The same of the differences from the mean, plus a bias. The padding zeros are not part of the row. */
static void layer_norm(const float *x, int64_t width, int64_t count, const Norm *norm, float epsilon, float *out) {
    Floats sum = {0}, squares = {0}, none = {0};
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    Ints lane = *(const Ints *)numbers;
    for (int64_t i = 0; i < width; i += LANES) sum += *(const Floats *)(x + i);
    float mean = total(sum) / count;
    for (int64_t i = 0; i < width; i += LANES) {
        Floats v = chosen(lane < (int)(count - i), *(const Floats *)(x + i) - mean, none);
        *(Floats *)(out + i) = v;
        squares = fused(v, v, squares);
    }
    float scale = 1.0f / sqrtf(total(squares) / count + epsilon);
    for (int64_t i = 0; i < width; i += LANES)
        *(Floats *)(out + i) =
            fused(*(const Floats *)(out + i) * scale, *(const Floats *)(norm->weight + i), *(const Floats *)(norm->bias + i));
}

/* Turn each pair of numbers by its angle; rope [dim] holds cosine and sine of each. `dim` is in whole lanes. */
static void rotate(const float *from, const float *rope, int64_t dim, float *to) {
    for (int64_t i = 0; i < dim; i += LANES)
        *(Floats *)(to + i) = turned(*(const Floats *)(from + i), *(const Floats *)(rope + i));
}

/* silu(x) = x / (1 + e^-x). gelu by tanh is the same of another exponent, because (1 + tanh y) / 2 = 1 / (1 + e^-2y). */
INLINE Floats activated(Floats x, int is_gelu) {
    Floats y = x;
    if (is_gelu) y = x * fused(x * x, spread(0.0713548163f), spread(1.5957691216f));
    return x / (1.0f + exponential(-y));
}

/* gpt-oss' product of gate and up: (up + 1) * gate / (1 + e^-1.702 gate), both clamped to 7, and up to -7, too. */
INLINE Floats clamped(Floats gate, Floats up) {
    gate = -larger(-gate, spread(-7.0f)), up = larger(-larger(-up, spread(-7.0f)), spread(-7.0f));
    return (up + 1.0f) * gate / (1.0f + exponential(gate * -1.702f));
}
