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

/* How the rows of queries, keys and values that a product wrote become those that attention reads.

   A row holds `heads` heads of queries, `kv_heads` of keys and as many of values, of 64 elements each. Row i has
   position i % length; `turns` [length][2][32] holds cosines and sines. Without norms of heads both weights [64] are
   null; without values of tokens `table` is, else it begins at the layer's own in rows of `table_stride`. */
typedef struct {
    int64_t rows, heads, kv_heads, length, table_stride;
    const float *turns;
    const int32_t *ids; /* [rows] */
    const float *q_weight, *k_weight, *table;
    float epsilon;
} Heads;

#define HEAD 64

INLINE void rotate(Floats x[4], const float *turn, float sign) {
    for (int i = 0; i < 2; i++) {
        Floats cosine = _mm512_loadu_ps(turn + i * LANES), sine = _mm512_loadu_ps(turn + 32 + i * LANES);
        sine = _mm512_mul_ps(sine, spread(sign));
        Floats low = _mm512_fmsub_ps(x[i], cosine, _mm512_mul_ps(x[i + 2], sine));
        x[i + 2] = _mm512_fmadd_ps(x[i + 2], cosine, _mm512_mul_ps(x[i], sine));
        x[i] = low;
    }
}

INLINE void take_head(const Bf16 *from, Floats x[4]) {
    for (int i = 0; i < 4; i++) x[i] = widened(from + i * LANES);
}

INLINE void put_head(const Floats x[4], Bf16 *to) {
    for (int i = 0; i < 4; i++) narrowed(to + i * LANES, x[i]);
}

/* Norm (where the model does) and rotate queries and keys, add their tokens' values to values; `scales` [rows][heads
   + kv_heads] belong to the norms. */
void train_place(const Heads *h, const Bf16 *raw, Bf16 *placed, float *scales) {
    int64_t turned = h->heads + h->kv_heads;
    for (int64_t row = 0; row < h->rows; row++, scales += turned) {
        const float *turn = h->turns + row % h->length * HEAD;
        for (int64_t head = 0; head < turned; head++, raw += HEAD, placed += HEAD) {
            const float *weight = head < h->heads ? h->q_weight : h->k_weight;
            Floats x[4], squares = spread(0);
            take_head(raw, x);
            if (weight) {
                for (int i = 0; i < 4; i++) squares = _mm512_fmadd_ps(x[i], x[i], squares);
                scales[head] = 1 / sqrtf(_mm512_reduce_add_ps(squares) / HEAD + h->epsilon);
                for (int i = 0; i < 4; i++)
                    x[i] = _mm512_mul_ps(_mm512_mul_ps(x[i], spread(scales[head])), _mm512_loadu_ps(weight + i * LANES));
            }
            rotate(x, turn, 1);
            put_head(x, placed);
        }
        for (int64_t head = 0; head < h->kv_heads; head++, raw += HEAD, placed += HEAD) {
            Floats x[4];
            take_head(raw, x);
            const float *value = h->table ? h->table + h->ids[row] * h->table_stride + head * HEAD : 0;
            for (int i = 0; value && i < 4; i++) x[i] = _mm512_add_ps(x[i], _mm512_loadu_ps(value + i * LANES));
            put_head(x, placed);
        }
    }
}

/* Turn the gradients `d` of placed rows into gradients of raw rows, in place; gradients of weights [64] and table add
   up. */
void train_place_back(const Heads *h, const Bf16 *raw, const float *scales, Bf16 *d, float *dq_weight, float *dk_weight,
                      float *dtable) {
    int64_t turned = h->heads + h->kv_heads;
    for (int64_t row = 0; row < h->rows; row++, scales += turned) {
        const float *turn = h->turns + row % h->length * HEAD;
        for (int64_t head = 0; head < turned; head++, raw += HEAD, d += HEAD) {
            const float *weight = head < h->heads ? h->q_weight : h->k_weight;
            float *dweight = head < h->heads ? dq_weight : dk_weight;
            Floats x[4], dx[4], dot = spread(0), scale = spread(weight ? scales[head] : 1);
            take_head(d, dx);
            rotate(dx, turn, -1);
            if (weight) {
                take_head(raw, x);
                for (int i = 0; i < 4; i++) {
                    float *to = dweight + i * LANES;
                    x[i] = _mm512_mul_ps(x[i], scale);
                    _mm512_storeu_ps(to, _mm512_fmadd_ps(dx[i], x[i], _mm512_loadu_ps(to)));
                    dx[i] = _mm512_mul_ps(dx[i], _mm512_loadu_ps(weight + i * LANES));
                    dot = _mm512_fmadd_ps(dx[i], x[i], dot);
                }
                Floats share = spread(_mm512_reduce_add_ps(dot) / HEAD);
                for (int i = 0; i < 4; i++) dx[i] = _mm512_mul_ps(_mm512_fnmadd_ps(share, x[i], dx[i]), scale);
            }
            put_head(dx, d);
        }
        for (int64_t head = 0; head < h->kv_heads; head++, raw += HEAD, d += HEAD)
            for (int i = 0; dtable && i < 4; i++) {
                float *to = dtable + h->ids[row] * h->table_stride + head * HEAD + i * LANES;
                _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), widened(d + i * LANES)));
            }
    }
}

INLINE Floats logistic(Floats x) {
    Floats power = power_of_two(_mm512_mul_ps(x, spread(-LOG2_E)));
    return _mm512_div_ps(spread(1), _mm512_add_ps(power, spread(1)));
}

/* Scale each head by a gate: opened = mixed * 2 logistic(weights . the first LANES of the normed input).

   `weights` [heads][LANES]; `normed` [rows][width]; `mixed`, `opened` [rows][heads * 64]. */
void train_open(int64_t rows, int64_t width, int64_t heads, const Bf16 *normed, const float *weights, const Bf16 *mixed,
                Bf16 *opened) {
    for (int64_t row = 0; row < rows; row++, normed += width)
        for (int64_t head = 0; head < heads; head++, mixed += HEAD, opened += HEAD) {
            float sum = _mm512_reduce_add_ps(_mm512_mul_ps(widened(normed), _mm512_loadu_ps(weights + head * LANES)));
            Floats gate = _mm512_mul_ps(logistic(spread(sum)), spread(2));
            for (int64_t i = 0; i < HEAD; i += LANES) narrowed(opened + i, _mm512_mul_ps(widened(mixed + i), gate));
        }
}

/* Turn the gradients `d` of opened heads into gradients of mixed heads, in place; gradients of weights add up; gradients
   of the gates' sums go to `dsums` [rows][heads], for train_open_inputs_back. */
void train_open_back(int64_t rows, int64_t width, int64_t heads, const Bf16 *normed, const float *weights,
                     const Bf16 *mixed, Bf16 *d, float *dweights, float *dsums) {
    for (int64_t row = 0; row < rows; row++, normed += width)
        for (int64_t head = 0; head < heads; head++, mixed += HEAD, d += HEAD) {
            Floats inputs = widened(normed), dot = spread(0);
            float sum = _mm512_reduce_add_ps(_mm512_mul_ps(inputs, _mm512_loadu_ps(weights + head * LANES)));
            Floats half = logistic(spread(sum)), gate = _mm512_mul_ps(half, spread(2));
            for (int64_t i = 0; i < HEAD; i += LANES) {
                Floats each = widened(d + i);
                dot = _mm512_fmadd_ps(each, widened(mixed + i), dot);
                narrowed(d + i, _mm512_mul_ps(each, gate));
            }
            float open = _mm512_cvtss_f32(half), dsum = _mm512_reduce_add_ps(dot) * 2 * open * (1 - open);
            float *to = dweights + head * LANES;
            _mm512_storeu_ps(to, _mm512_fmadd_ps(inputs, spread(dsum), _mm512_loadu_ps(to)));
            *dsums++ = dsum;
        }
}

/* Add the gradients of the gates' inputs to the gradients of the normed input, [rows][width]. */
void train_open_inputs_back(int64_t rows, int64_t width, int64_t heads, const float *weights, const float *dsums,
                            Bf16 *dnormed) {
    for (int64_t row = 0; row < rows; row++, dnormed += width, dsums += heads) {
        Floats sum = widened(dnormed);
        for (int64_t head = 0; head < heads; head++)
            sum = _mm512_fmadd_ps(spread(dsums[head]), _mm512_loadu_ps(weights + head * LANES), sum);
        narrowed(dnormed, sum);
    }
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
