/* One pass of a decoder over rows of any arenas, done by several threads in step.

   Every thread runs `pass_share` and does its share of each phase; a barrier stands between a phase that writes and
   one that reads. Memory belongs to the caller; shapes are [rows][width padded to 64], the padding zero. */

#pragma once
#include "attention.h"
#include "elements.h"
#include "products.h"
#include "pass.h"
#include "tiles.h"

#define SHARED 16 /* outputs of a product are shared out in such units */
#define TILED 3   /* rows from which tiles are faster */

static int64_t begin_of(int64_t count, int64_t unit, int threads, int thread) {
    int64_t units = (count + unit - 1) / unit, at = units * thread / threads * unit;
    return at < count ? at : count;
}

#define SHARE(INDEX, COUNT)                                                                                          \
    for (int64_t INDEX = begin_of(COUNT, 1, p->threads, thread),                                                     \
                 INDEX##_end = begin_of(COUNT, 1, p->threads, thread + 1);                                           \
         INDEX < INDEX##_end; INDEX++)

static void share_product(Pass *p, int thread, const Matrix *m, int64_t rows, float *out, int64_t stride) {
    int64_t first = begin_of(m->out, SHARED, p->threads, thread), last = begin_of(m->out, SHARED, p->threads, thread + 1);
    if (p->has_tiles && rows >= TILED) tiles_multiply(m, &p->input, rows, first, last, out, stride);
    else multiply(m, p->model->is_int8, &p->input, rows, first, last, out, stride);
    for (int64_t j = 0; m->bias && j < rows; j++) add_bias(m, first, last, out + j * stride);
    meet(p);
}

/* Hand a row to the next product: as it is, or in digits. */
static void hand_over(Pass *p, int64_t row, int64_t in) {
    if (p->model->is_int8)
        split_digits(p->input.wide + row * in, in, p->input.digits + 2 * row * in, p->input.units + row);
}

/* Add delta to x; the norm of the sum becomes row `to` of the next product. */
static void add_and_norm(Pass *p, int64_t row, int add, const Norm *norm, int64_t to) {
    const Model *m = p->model;
    int64_t width = m->padded;
    float *x = p->x + row * width, *out = p->input.wide + to * width;
    const float *delta = p->delta + row * width;
    for (int64_t i = 0; add && i < width; i += LANES) *(Floats *)(x + i) += *(const Floats *)(delta + i);
    if (norm->bias) layer_norm(x, width, m->hidden, norm, m->epsilon, out);
    else rms_norm(x, width, m->hidden, norm->weight, m->epsilon, out);
    hand_over(p, to, width);
}

/* The gates of a row's attention, from its normed input: twice the logistic function. */
static void open_gates(Pass *p, const Layer *layer, int64_t row) {
    const Model *m = p->model;
    const float *input = p->input.wide + row * layer->qkv.in;
    for (int64_t h = 0; h < m->heads; h++) {
        const float *weights = layer->head_gates + h * GATE_INPUTS;
        Floats sums = {0};
        for (int64_t i = 0; i < GATE_INPUTS; i += LANES)
            sums = fused(*(const Floats *)(input + i), *(const Floats *)(weights + i), sums);
        Floats power = exponential(spread(-total(sums)));
        p->gates[row * m->heads + h] = 2.0f / (1.0f + power[0]);
    }
}

/* Norm (where the model does) and rotate a row's queries and keys, and write its keys and values into its arena. */
static void place(Pass *p, int64_t layer, int64_t row) {
    const Model *m = p->model;
    const Place *at = p->places + row;
    int64_t dim = m->head_dim;
    float *qkv = p->wide + row * p->wide_stride;
    const float *rope = m->rope + at->position * dim, *norms = m->layers[layer].head_norms;
    const float *own = p->token_values ? p->token_values + (row * m->layer_count + layer) * m->kv_heads * dim : NULL;
    for (int64_t h = 0; norms && h < m->heads + m->kv_heads; h++)
        rms_norm(qkv + h * dim, dim, dim, norms + h * dim, m->epsilon, qkv + h * dim);
    for (int64_t h = 0; h < m->heads; h++) rotate(qkv + h * dim, rope, dim, qkv + h * dim);
    for (int64_t h = 0; h < m->kv_heads; h++) {
        int64_t slot = ((layer * m->kv_heads + h) * at->capacity + at->position) * dim;
        rotate(qkv + (m->heads + h) * dim, rope, dim, at->k + slot);
        float *value = qkv + (m->heads + m->kv_heads + h) * dim;
        for (int64_t i = 0; own && i < dim; i += LANES) *(Floats *)(value + i) += *(const Floats *)(own + h * dim + i);
        memcpy(at->v + slot, value, dim * sizeof(float));
    }
    if (m->layers[layer].head_gates) open_gates(p, m->layers + layer, row);
}

/* Rows of one task of attention: all that fit, or fewer if threads would be idle. */
static int64_t rows_a_task(const Pass *p) {
    const Model *m = p->model;
    int64_t fair = p->rows * m->kv_heads / p->threads, most = MOST_QUERIES / (m->heads / m->kv_heads);
    fair = fair < p->rows ? fair : p->rows;
    return fair < 1 || most < 1 ? 1 : fair < most ? fair : most;
}

/* Parts of the query heads of one key head: more than one if they are too many, or threads would be idle. */
static int64_t parts_of(const Pass *p) {
    const Model *m = p->model;
    int64_t group = m->heads / m->kv_heads, idle = p->threads / (p->rows * m->kv_heads);
    int64_t least = (group + MOST_QUERIES - 1) / MOST_QUERIES, parts = idle > least ? idle : least;
    return parts < group ? parts : group;
}

/* The rows from `row` on, before `last`, that follow each other in one arena and see keys from the same one on. */
static int64_t run_of(const Place *places, int64_t row, int64_t last) {
    int64_t count = 1;
    while (row + count < last && places[row + count].k == places[row].k &&
           places[row + count].begin == places[row].begin &&
           places[row + count].position == places[row].position + count)
        count++;
    return count;
}

/* One task of attention: some rows, a key head, and one of its parts. What arenas have in common is read once. */
static void attend(Pass *p, int thread, int64_t layer, int64_t task, int64_t in) {
    const Model *m = p->model;
    int64_t group = m->heads / m->kv_heads, parts = parts_of(p), dim = m->head_dim, height = rows_a_task(p);
    int64_t part = task % parts, kv_head = task / parts % m->kv_heads, first = task / parts / m->kv_heads * height;
    int64_t skipped = group * part / parts, heads = group * (part + 1) / parts - skipped;
    int64_t rows = first + height < p->rows ? height : p->rows - first, head = kv_head * group + skipped;
    float unit = 1.44269504f / sqrtf(dim); /* scores become exponents of two */
    Attention a = attention_scratch(p->scratch + thread * attention_size(dim), dim);
    const Place *places = p->places + first;
    for (int64_t row = 0; row < rows; row++) {
        const float *q = p->wide + (first + row) * p->wide_stride + head * dim;
        for (int64_t i = 0; i < heads * dim; i += LANES)
            *(Floats *)(a.queries + row * heads * dim + i) = *(const Floats *)(q + i) * unit;
    }
    begin_queries(&a, rows * heads, dim);
    int64_t slot = layer * m->kv_heads + kv_head;
    float *shared_k = places->k + slot * places->capacity * dim, *shared_v = places->v + slot * places->capacity * dim;
    if (p->shared) attend_prefix(&a, rows * heads, shared_k, shared_v, places->begin, p->shared, dim);
    for (int64_t row = 0, count; row < rows; row += count) {
        const Place *at = places + row;
        count = run_of(places, row, rows);
        attend_rows(&a, row * heads, count, heads, p->shared ? p->shared : at->begin, at->position,
                    at->k + slot * at->capacity * dim, at->v + slot * at->capacity * dim, dim);
    }
    for (int64_t j = 0; j < rows * heads; j++) {
        int64_t from = first + j / heads, of = head + j % heads;
        float *out = p->input.wide + from * in + of * dim, norm = 1.0f / total(a.totals[j]);
        if (m->layers[layer].head_gates) norm *= p->gates[from * m->heads + of];
        for (int64_t i = 0; i < dim; i += LANES) *(Floats *)(out + i) = *(const Floats *)(a.out + j * dim + i) * norm;
    }
}

/* The input of the last product: activated(gate) * up, or activated(up) without a gate. */
static void activate(Pass *p, int64_t row, int64_t in) {
    const Model *m = p->model;
    int is_gated = (int)m->is_gated, is_gelu = (int)m->is_gelu;
    const float *first = p->wide + row * p->wide_stride, *second = first + m->intermediate;
    float *out = p->input.wide + row * in;
    for (int64_t i = 0; i < m->intermediate; i += LANES) {
        Floats v = activated(*(const Floats *)(first + i), is_gelu);
        if (is_gated) v *= *(const Floats *)(second + i);
        *(Floats *)(out + i) = v;
    }
    memset(out + m->intermediate, 0, (in - m->intermediate) * sizeof(float));
    hand_over(p, row, in);
}

static void attention_block(Pass *p, int thread, int64_t i) {
    const Model *m = p->model;
    const Layer *layer = m->layers + i;
    int64_t in = layer->out.in, used = m->heads * m->head_dim;
    SHARE(row, p->rows) add_and_norm(p, row, i > 0, &layer->norm_in, row);
    meet(p);
    share_product(p, thread, &layer->qkv, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows) place(p, i, row);
    meet(p);
    int64_t height = rows_a_task(p);
    SHARE(task, (p->rows + height - 1) / height * m->kv_heads * parts_of(p)) attend(p, thread, i, task, in);
    meet(p);
    SHARE(row, p->rows) {
        memset(p->input.wide + row * in + used, 0, (in - used) * sizeof(float));
        hand_over(p, row, in);
    }
    meet(p);
    share_product(p, thread, &layer->out, p->rows, p->delta, m->padded);
}

static void mlp_block(Pass *p, int thread, int64_t i) {
    const Layer *layer = p->model->layers + i;
    SHARE(row, p->rows) add_and_norm(p, row, 1, &layer->norm_mlp, row);
    meet(p);
    share_product(p, thread, &layer->up, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows) activate(p, row, layer->down.in);
    meet(p);
    share_product(p, thread, &layer->down, p->rows, p->delta, p->model->padded);
}

static void pass_share(Pass *p, int thread) {
    const Model *m = p->model;
    if (p->has_tiles) tiles_begin();
    for (int64_t i = 0; i < m->layer_count; i++) {
        attention_block(p, thread, i);
        mlp_block(p, thread, i);
    }
    SHARE(n, p->wanted) add_and_norm(p, p->wanted_rows[n], 1, &m->norm, n);
    meet(p);
    share_product(p, thread, &m->head, p->wanted, p->logits, m->head.out);
    if (p->has_tiles) tiles_end();
}
