/* States of layers: a convolution over the last tokens, and a memory of all that fades with each of them.

   The rows of an arena go through both one after the other, and heads side by side on the threads, so that a row's bits
   depend on those before it alone. */

#pragma once
#include "elements.h"
#include "pass.h"

/* What a row's convolution reads of the token `back` before it: another row, or what the arena has kept. */
static const float *input_of(const Pass *p, const State *s, int64_t row, int64_t back) {
    const Place *at = p->places + row;
    for (; back && row && p->places[row - 1].state == at->state; back--) row--;
    if (!back) return p->wide + row * p->wide_stride;
    return at->state + s->inputs_at + (s->kernel - 1 - back) * s->channels;
}

/* A row's convolution at a lane of channels. */
INLINE Floats convolved(const State *s, const float *const *inputs, int64_t channel) {
    Floats sum = s->conv_bias ? *(const Floats *)(s->conv_bias + channel) : (Floats){0};
    for (int64_t tap = 0; tap < s->kernel; tap++)
        sum = fused(*(const Floats *)(inputs[tap] + channel), *(const Floats *)(s->conv + tap * s->channels + channel), sum);
    return sum;
}

/* Bring a vector to the length `length`. */
static void scale_to(float *x, int64_t width, float length) {
    Floats squares = {0};
    for (int64_t i = 0; i < width; i += LANES) squares = fused(*(Floats *)(x + i), *(Floats *)(x + i), squares);
    float scale = length / sqrtf(total(squares) + 1e-6f);
    for (int64_t i = 0; i < width; i += LANES) *(Floats *)(x + i) *= scale;
}

/* Values, keys and queries of a row; or without a memory the input of the last product. */
static void convolve(Pass *p, const State *s, int64_t row) {
    const float *inputs[MOST_TAPS], *gates = p->wide + row * p->wide_stride + 2 * s->channels;
    for (int64_t tap = 0; tap < s->kernel; tap++) inputs[tap] = input_of(p, s, row, s->kernel - 1 - tap);
    if (!s->heads) {
        float *out = p->input.wide + row * s->out.in;
        for (int64_t i = 0; i < s->channels; i += LANES)
            *(Floats *)(out + i) = convolved(s, inputs, i) * *(const Floats *)(gates + i);
        return;
    }
    float *out = p->convolved + row * s->channels;
    for (int64_t i = 0; i < s->channels; i += LANES) *(Floats *)(out + i) = activated(convolved(s, inputs, i), 0);
    for (int64_t g = 0; s->is_correcting && g < s->groups; g++) {
        scale_to(out + s->heads * s->value + g * s->key, s->key, 1.0f);
        scale_to(out + s->heads * s->value + (s->groups + g) * s->key, s->key, 1.0f / sqrtf((float)s->key));
    }
}

/* Keep the inputs that the convolution of the next token will read: for whoever asks for them, and as the live ones. */
static void keep_inputs(Pass *p, const State *s) {
    int64_t size = s->channels * sizeof(float), count = s->kernel - 1;
    for (int64_t row = 0; row < p->rows; row++) {
        const Place *at = p->places + row;
        for (int64_t i = 0; at->keep && i < count; i++)
            memcpy(at->keep + s->inputs_at + i * s->channels, input_of(p, s, row, count - 1 - i), size);
    }
    for (int64_t row = 0; row < p->rows; row++) {
        const Place *at = p->places + row;
        if (row + 1 < p->rows && at[1].state == at->state) continue;
        /* In order: an input is read no later than its place is written. */
        for (int64_t i = 0; i < count; i++)
            memmove(at->state + s->inputs_at + i * s->channels, input_of(p, s, row, count - 1 - i), size);
    }
}

/* log(1 + e^x): the larger of x and 0, and twice the series of the inverse hyperbolic tangent, of at most a third. */
static float softplus(float x) {
    float y = exponential(spread(x < 0 ? x : -x))[0], s = y / (2.0f + y), z = s * s, sum = 0;
    for (int k = 15; k > 0; k -= 2) sum = sum * z + 1.0f / k;
    return (x > 0 ? x : 0) + 2.0f * s * sum;
}

/* One token of a head's memory [key][value]: it fades, the value is written in the place of the key, and the query reads. */
INLINE void remember(const State *s, float *memory, const float *k, const float *q, const float *values, float decay,
                     float size, float skip, float *out) {
    for (int64_t v = 0; v < s->value; v += LANES) {
        Floats value = *(const Floats *)(values + v), read = value * skip, new = value * size;
        float *at = memory + v;
        if (s->is_correcting) {
            Floats held = {0};
            for (int64_t i = 0; i < s->key; i++) held = fused(*(Floats *)(at + i * s->value) * decay, spread(k[i]), held);
            new = (value - held) * size;
        }
        for (int64_t i = 0; i < s->key; i++) {
            Floats now = fused(spread(k[i]), new, *(Floats *)(at + i * s->value) * decay);
            *(Floats *)(at + i * s->value) = now;
            read = fused(spread(q[i]), now, read);
        }
        *(Floats *)(out + v) = read;
    }
}

/* Take all rows into a head's memory, in order; what each reads of it goes to its input of the last product. */
static void scan_head(Pass *p, const State *s, int64_t h) {
    int64_t inner = s->heads * s->value, group = h / (s->heads / s->groups), numbers = s->key * s->value;
    for (int64_t row = 0; row < p->rows; row++) {
        const Place *at = p->places + row;
        const float *sizes = p->wide + row * p->wide_stride + s->channels + inner, *x = p->convolved + row * s->channels;
        float *memory = at->state + s->memory_at + h * numbers;
        float step = softplus(sizes[h] + s->step_bias[h]), size;
        step = step < s->least_step ? s->least_step : step > s->most_step ? s->most_step : step;
        size = s->is_correcting ? 1.0f / (1.0f + exponential(spread(-sizes[s->heads + h]))[0]) : step;
        remember(s, memory, x + inner + group * s->key, x + inner + (s->groups + group) * s->key, x + h * s->value,
                 exponential(spread(step * s->rates[h]))[0], size, s->skip ? s->skip[h] : 0.0f,
                 p->input.wide + row * s->out.in + h * s->value);
        if (at->keep) memcpy(at->keep + s->memory_at + h * numbers, memory, numbers * sizeof(float));
    }
}

static void open_all(float *x, const float *gates, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) *(Floats *)(x + i) *= activated(*(const Floats *)(gates + i), 0);
}

/* Gate and norm what a row has read. */
static void gate_row(Pass *p, const State *s, int64_t row) {
    int64_t inner = s->heads * s->value;
    float *x = p->input.wide + row * s->out.in;
    const float *gates = p->wide + row * p->wide_stride + s->channels;
    if (!s->norm || s->is_gated_first) open_all(x, gates, inner);
    for (int64_t i = 0; s->norm && i < inner; i += s->normed)
        rms_norm(x + i, s->normed, s->normed, s->norm + i, p->model->epsilon, x + i);
    if (s->norm && !s->is_gated_first) open_all(x, gates, inner);
}

static void end_row(Pass *p, const State *s, int64_t row) {
    int64_t used = s->heads ? s->heads * s->value : s->channels, in = s->out.in;
    if (s->heads) gate_row(p, s, row);
    memset(p->input.wide + row * in + used, 0, (in - used) * sizeof(float));
    hand_over(p, row, in);
}

/* What a convolution without memory reads: inputs times their factors. */
static void join_inputs(Pass *p, const State *s, int64_t row) {
    float *x = p->wide + row * p->wide_stride;
    for (int64_t i = 0; i < s->channels; i += LANES) *(Floats *)(x + i) *= *(const Floats *)(x + s->channels + i);
}

static void state_block(Pass *p, int thread, const Layer *layer) {
    const State *s = layer->state;
    share_product(p, thread, &s->first, p->rows, p->wide, p->wide_stride);
    if (!s->heads) {
        SHARE(row, p->rows) join_inputs(p, s, row);
        meet(p);
    }
    SHARE(row, p->rows) convolve(p, s, row);
    meet(p);
    if (thread == 0) keep_inputs(p, s);
    SHARE(h, s->heads) scan_head(p, s, h);
    meet(p);
    if (leaves(p, layer)) leave(p, thread, layer, s->out.in);
    if (!p->rows) return;
    SHARE(row, p->rows) end_row(p, s, row);
    meet(p);
    share_product(p, thread, &s->out, p->rows, p->delta, p->model->padded);
}
