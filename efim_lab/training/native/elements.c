/* What a step does to single elements between its products: norms, rotations, gates, the loss. Rows are tokens.

   Sizes are multiples of 16. The stream that layers add to is fp32, operands of products are bf16. */

#include "lanes.h"
#include <math.h>

#define TEXT(x) #x
#define SPELLED(x) TEXT(x)

/* A hash of the sources this was built from, given by setup.py. */
const char *train_sources(void) { return SPELLED(SOURCES); }

/* Whether this CPU has what these files are compiled for. */
int train_supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}

/* Add `y` to the stream (unless it is null) and normalize: sum = x + y, h = sum * scale * weight. */
void train_add_norm(int64_t rows, int64_t width, const float *x, const Bf16 *y, const float *weight, float epsilon,
                    float *sum, Bf16 *h, float *scales) {
    for (int64_t row = 0; row < rows; row++, x += width, sum += width, h += width) {
        Floats squares = spread(0);
        for (int64_t i = 0; i < width; i += LANES) {
            Floats value = _mm512_loadu_ps(x + i);
            if (y) value = _mm512_add_ps(value, widened(y + i));
            _mm512_storeu_ps(sum + i, value);
            squares = _mm512_fmadd_ps(value, value, squares);
        }
        scales[row] = 1 / sqrtf(_mm512_reduce_add_ps(squares) / width + epsilon);
        Floats scale = spread(scales[row]);
        for (int64_t i = 0; i < width; i += LANES) {
            Floats value = _mm512_mul_ps(_mm512_loadu_ps(sum + i), scale);
            narrowed(h + i, _mm512_mul_ps(value, _mm512_loadu_ps(weight + i)));
        }
        if (y) y += width;
    }
}

/* Add the gradient through a norm to the stream's: dx += d norm; also its bf16 form, and the gradient of the weight. */
void train_norm_back(int64_t rows, int64_t width, const Bf16 *dh, const float *x, const float *scales,
                     const float *weight, float *dx, Bf16 *narrow, float *dweight) {
    for (int64_t row = 0; row < rows; row++, dh += width, x += width, dx += width, narrow += width) {
        Floats dot = spread(0), scale = spread(scales[row]);
        for (int64_t i = 0; i < width; i += LANES) {
            Floats product = _mm512_mul_ps(widened(dh + i), _mm512_loadu_ps(x + i));
            dot = _mm512_fmadd_ps(product, _mm512_loadu_ps(weight + i), dot);
            _mm512_storeu_ps(dweight + i, _mm512_fmadd_ps(product, scale, _mm512_loadu_ps(dweight + i)));
        }
        float r = scales[row];
        Floats share = spread(-r * r * r * _mm512_reduce_add_ps(dot) / width);
        for (int64_t i = 0; i < width; i += LANES) {
            Floats through = _mm512_mul_ps(_mm512_mul_ps(widened(dh + i), _mm512_loadu_ps(weight + i)), scale);
            Floats whole = _mm512_fmadd_ps(_mm512_loadu_ps(x + i), share, through);
            whole = _mm512_add_ps(whole, _mm512_loadu_ps(dx + i));
            _mm512_storeu_ps(dx + i, whole);
            narrowed(narrow + i, whole);
        }
    }
}

/* Rotate `heads` heads of 64 at the start of each row by its position, or back if `sign` is -1; in place.

   Row i has position i % length; `turns` [length][2][32] holds cosines and sines. */
void train_rotate(int64_t rows, int64_t stride, int64_t heads, int64_t length, const float *turns, float sign, Bf16 *x) {
    for (int64_t row = 0; row < rows; row++, x += stride) {
        const float *turn = turns + row % length * 64;
        for (int64_t i = 0; i < 32; i += LANES) {
            Floats cosine = _mm512_loadu_ps(turn + i), sine = _mm512_mul_ps(_mm512_loadu_ps(turn + 32 + i), spread(sign));
            for (int64_t head = 0; head < heads; head++) {
                Bf16 *low = x + head * 64 + i, *high = low + 32;
                Floats a = widened(low), b = widened(high);
                narrowed(low, _mm512_fmsub_ps(a, cosine, _mm512_mul_ps(b, sine)));
                narrowed(high, _mm512_fmadd_ps(b, cosine, _mm512_mul_ps(a, sine)));
            }
        }
    }
}

INLINE Floats logistic(Floats x) {
    Floats power = power_of_two(_mm512_mul_ps(x, spread(-LOG2_E)));
    return _mm512_div_ps(spread(1), _mm512_add_ps(power, spread(1)));
}

/* y = silu(gate) * up; `both` [rows][2 * width] holds gate, then up. */
void train_gate(int64_t rows, int64_t width, const Bf16 *both, Bf16 *y) {
    for (int64_t row = 0; row < rows; row++, both += 2 * width, y += width)
        for (int64_t i = 0; i < width; i += LANES) {
            Floats gate = widened(both + i);
            Floats open = _mm512_mul_ps(gate, logistic(gate));
            narrowed(y + i, _mm512_mul_ps(open, widened(both + width + i)));
        }
}

/* The gradients of gate and up, written over them. */
void train_gate_back(int64_t rows, int64_t width, const Bf16 *dy, Bf16 *both) {
    for (int64_t row = 0; row < rows; row++, both += 2 * width, dy += width)
        for (int64_t i = 0; i < width; i += LANES) {
            Floats gate = widened(both + i), up = widened(both + width + i), d = widened(dy + i), s = logistic(gate);
            Floats open = _mm512_mul_ps(gate, s);
            Floats slope = _mm512_fmadd_ps(open, _mm512_sub_ps(spread(1), s), s);
            narrowed(both + i, _mm512_mul_ps(_mm512_mul_ps(d, up), slope));
            narrowed(both + width + i, _mm512_mul_ps(d, open));
        }
}

/* Write the gradient of the cross entropy over the logits, times `scale`; return the sum of the losses in nats.

   A target below 0 is padding: no loss, and no gradient. */
double train_cross_entropy(int64_t rows, int64_t width, const int32_t *targets, float scale, Bf16 *logits) {
    double losses = 0;
    for (int64_t row = 0; row < rows; row++, logits += width) {
        int32_t target = targets[row];
        if (target < 0) {
            for (int64_t i = 0; i < width; i += LANES) _mm256_storeu_si256((void *)(logits + i), _mm256_setzero_si256());
            continue;
        }
        Floats most = spread(-INFINITY), sums = spread(0), slope = spread(LOG2_E);
        for (int64_t i = 0; i < width; i += LANES) most = _mm512_max_ps(most, widened(logits + i));
        float top = _mm512_reduce_max_ps(most);
        union { uint32_t bits; float value; } wanted = {(uint32_t)logits[target] << 16};
        Floats shift = spread(-top * LOG2_E);
        for (int64_t i = 0; i < width; i += LANES) {
            Floats power = power_of_two(_mm512_fmadd_ps(widened(logits + i), slope, shift));
            sums = _mm512_add_ps(sums, power);
            narrowed(logits + i, power);
        }
        float sum = _mm512_reduce_add_ps(sums);
        losses += logf(sum) + top - wanted.value;
        Floats share = spread(scale / sum);
        for (int64_t i = 0; i < width; i += LANES) narrowed(logits + i, _mm512_mul_ps(widened(logits + i), share));
        __m512 right = spread((expf(wanted.value - top) / sum - 1) * scale);
        _mm256_mask_storeu_epi16(logits + target, 1, (__m256i)_mm512_cvtneps_pbh(right));
    }
    return losses;
}

/* Rows of the table for each id. */
void train_embed(int64_t rows, int64_t width, const int32_t *ids, const float *table, float *x) {
    for (int64_t row = 0; row < rows; row++, x += width)
        for (int64_t i = 0; i < width; i += LANES) _mm512_storeu_ps(x + i, _mm512_loadu_ps(table + ids[row] * width + i));
}

void train_embed_back(int64_t rows, int64_t width, const int32_t *ids, const float *dx, float *dtable) {
    for (int64_t row = 0; row < rows; row++, dx += width)
        for (int64_t i = 0; i < width; i += LANES) {
            float *to = dtable + ids[row] * width + i;
            _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_loadu_ps(dx + i)));
        }
}

void train_accumulate(int64_t count, const Bf16 *gradient, float *sum) {
    for (int64_t i = 0; i < count; i += LANES)
        _mm512_storeu_ps(sum + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), widened(gradient + i)));
}
