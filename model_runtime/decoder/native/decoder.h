/* One pass of a decoder over rows of any arenas, done by several threads in step.

   Every thread runs `pass_share` and does its share of each phase; a barrier separates a phase that writes
   from a phase that reads. Memory belongs to the caller; shapes are [rows][width padded to 64], the padding zero. */

#pragma once
#include "attention.h"
#include "elements.h"
#include "products.h"
#include "pass.h"
#include "tiles.h"
#include "head.h"

#define SHARED 16 /* outputs of a product are shared out in such units */
#define TILED 3   /* rows from which tiles are faster */
#define PIECE (1 << 20) /* weights of a piece of a product, which takes a row about a tenth of a millisecond */

static int64_t begin_of(int64_t count, int64_t unit, int threads, int thread) {
    int64_t units = (count + unit - 1) / unit, at = units * thread / threads * unit;
    return at < count ? at : count;
}

#define SHARE(INDEX, COUNT)                                                                                          \
    for (int64_t INDEX = begin_of(COUNT, 1, p->threads, thread),                                                     \
                 INDEX##_end = begin_of(COUNT, 1, p->threads, thread + 1);                                           \
         INDEX < INDEX##_end; INDEX++)

/* The outputs from `first` up to `last` of a product of rows, in pieces after which a pass may have to give way. */
ONCE void product_of(Pass *p, const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out,
                     int64_t stride) {
    for (int64_t piece = (PIECE / SHARED / m->in + 1) * SHARED; last - first > piece; first += piece)
        product_of(p, m, x, rows, first, first + piece, out, stride);
    give_way(p);
    if (p->has_tiles && rows >= TILED) tiles_multiply(m, x, rows, first, last, out, stride);
    else multiply(m, p->model->form, x, rows, first, last, out, stride);
    for (int64_t j = 0; m->bias && j < rows; j++) add_bias(m, first, last, out + j * stride);
}

static void share_product(Pass *p, int thread, const Matrix *m, int64_t rows, float *out, int64_t stride) {
    int64_t first = begin_of(m->out, SHARED, p->threads, thread), last = begin_of(m->out, SHARED, p->threads, thread + 1);
    product_of(p, m, &p->input, rows, first, last, out, stride);
    meet(p);
}

/* A thread's part of the products of groups of rows, each with its own matrix: group i has the rows from first[i] on.
   Groups without rows take no time, and all others count alike. With `marks`, only groups with this mark are computed. */
static void share_groups(Pass *p, int thread, const Matrix *matrices, int64_t count, const int32_t *first, const Rows *input,
                         float *out, int64_t stride, const uint8_t *marks, int mark) {
    int64_t wanted = 0, size = matrices->out, in = matrices->in;
    for (int64_t i = 0; i < count; i++) wanted += first[i + 1] > first[i] && (!marks || marks[i] == mark);
    int64_t begin = begin_of(wanted * size, SHARED, p->threads, thread), at = 0;
    int64_t end = begin_of(wanted * size, SHARED, p->threads, thread + 1);
    for (int64_t i = 0; i < count && at < end; i++) {
        int64_t rows = first[i + 1] - first[i], slot = first[i];
        if (!rows || (marks && marks[i] != mark)) continue;
        int64_t from = begin > at ? begin - at : 0, to = end - at < size ? end - at : size;
        at += size;
        if (from >= size) continue;
        Rows x = {input->wide + slot * in, input->digits + 2 * slot * in, input->units + slot};
        product_of(p, matrices + i, &x, rows, from, to, out + slot * stride, stride);
    }
    meet(p);
}

#include "experts.h"

/* Hand a row to the next product. */
static void hand_over(Pass *p, int64_t row, int64_t in) { prepare_row(p->model, &p->input, row, in); }

static void apply_norm(const Model *m, const float *x, const Norm *norm, float *out) {
    if (norm->bias) layer_norm(x, m->padded, m->hidden, norm, m->epsilon, out);
    else rms_norm(x, m->padded, m->hidden, norm->weight, m->epsilon, out);
}

/* Whether what a layer's attention adds stands aside until its state, which reads the same, is computed. */
static int has_both(const Layer *layer) { return layer->state && layer->out.out; }

/* Add delta to x, normed if there are weights for that, and the attention's output if it was put aside. */
static void add(Pass *p, int64_t row, const Norm *after, int has_aside) {
    int64_t width = p->model->padded;
    float *x = p->x + row * width, *delta = p->delta + row * width;
    const float *aside = has_aside ? p->aside + row * width : NULL;
    if (after->weight) {
        apply_norm(p->model, delta, after, delta);
        /* No product writes here, so a NaN would stay for ever. */
        memset(delta + p->model->hidden, 0, (width - p->model->hidden) * sizeof(float));
    }
    for (int64_t i = 0; i < width; i += LANES) *(Floats *)(x + i) += *(const Floats *)(delta + i);
    for (int64_t i = 0; aside && i < width; i += LANES) *(Floats *)(x + i) += *(const Floats *)(aside + i);
}

/* Add delta to x, unless `after` is NULL; the norm of the sum becomes row `to` of the next product. */
static void add_and_norm(Pass *p, int64_t row, const Norm *after, int has_aside, const Norm *norm, int64_t to) {
    int64_t width = p->model->padded;
    if (after) add(p, row, after, has_aside);
    apply_norm(p->model, p->x + row * width, norm, p->input.wide + to * width);
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

/* Write a row's keys, rotated, and values, both [kv_heads][head_dim], into its arena; `own` is added to values, or NULL. */
static void write_row(Pass *p, const Layer *l, int64_t row, const float *keys, float *values, const float *own) {
    const Held *held = p->places[row].held + l->kind;
    int64_t dim = p->model->head_dim, position = p->places[row].position, kv_heads = p->model->kv_heads;
    for (int64_t h = 0; h < kv_heads; h++) {
        int64_t slot = ((l->at * kv_heads + h) * held->capacity + position - held->base) * dim;
        rotate(keys + h * dim, l->rope + position * dim, dim, held->k + slot);
        float *value = values + h * dim;
        for (int64_t i = 0; own && i < dim; i += LANES) *(Floats *)(value + i) += *(const Floats *)(own + h * dim + i);
        memcpy(held->v + slot, value, dim * sizeof(float));
    }
}

/* Norm (where the model does) and rotate a row's queries and keys, and write its keys and values into its arena. */
static void place(Pass *p, int64_t layer, int64_t row) {
    const Model *m = p->model;
    const Layer *l = m->layers + layer;
    int64_t dim = m->head_dim, normed = m->heads + (l->has_keys ? m->kv_heads : 0);
    float *qkv = p->wide + row * p->wide_stride;
    const float *rope = l->rope + p->places[row].position * dim, *norms = l->head_norms;
    const float *own = p->token_values ? p->token_values + (row * m->layer_count + layer) * m->kv_heads * dim : NULL;
    for (int64_t h = 0; norms && h < normed; h++)
        rms_norm(qkv + h * dim, dim, dim, norms + h * dim, m->epsilon, qkv + h * dim);
    for (int64_t h = 0; h < m->heads; h++) rotate(qkv + h * dim, rope, dim, qkv + h * dim);
    if (l->has_keys) write_row(p, l, row, qkv + m->heads * dim, qkv + (m->heads + m->kv_heads) * dim, own);
    if (l->head_gates) open_gates(p, l, row);
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
    while (row + count < last && places[row + count].held == places[row].held &&
           places[row + count].begin == places[row].begin &&
           places[row + count].position == places[row].position + count)
        count++;
    return count;
}

/* One task of attention: some rows, a key head, and one of its parts. What arenas have in common is read once. */
static void attend(Pass *p, int thread, const Layer *layer, int64_t task, int64_t in) {
    give_way(p);
    const Model *m = p->model;
    int64_t group = m->heads / m->kv_heads, parts = parts_of(p), dim = m->head_dim, height = rows_a_task(p);
    int64_t part = task % parts, kv_head = task / parts % m->kv_heads, first = task / parts / m->kv_heads * height;
    int64_t skipped = group * part / parts, heads = group * (part + 1) / parts - skipped;
    int64_t rows = first + height < p->rows ? height : p->rows - first, head = kv_head * group + skipped;
    float unit = 1.44269504f * m->scale; /* scores become exponents of two */
    Attention a = attention_scratch(p->scratch + thread * attention_size(dim, dim), dim, dim, dim);
    a.cap = layer->cap * 1.44269504f;
    const Place *places = p->places + first;
    for (int64_t row = 0; row < rows; row++) {
        const float *q = p->wide + (first + row) * p->wide_stride + head * dim;
        for (int64_t i = 0; i < heads * dim; i += LANES)
            *(Floats *)(a.queries + row * heads * dim + i) = *(const Floats *)(q + i) * unit;
    }
    begin_queries(&a, rows, heads, layer->sinks ? layer->sinks + head : NULL);
    int64_t slot = layer->at * m->kv_heads + kv_head, shared = layer->window ? 0 : p->shared;
    for (int64_t row = 0, count; row < rows; row += count) {
        const Place *at = places + row;
        const Held *held = at->held + layer->kind;
        int64_t first_of_all = (slot * held->capacity - held->base) * dim; /* where position 0 would be */
        a.k = held->k + first_of_all, a.v = held->v + first_of_all;
        if (row == 0 && shared) attend_prefix(&a, rows * heads, at->begin, shared);
        count = run_of(places, row, rows);
        if (layer->window) attend_windows(&a, row * heads, count, heads, layer->window, at->position);
        else attend_rows(&a, row * heads, count, heads, shared ? shared : at->begin, at->position);
    }
    for (int64_t j = 0; j < rows * heads; j++) {
        int64_t from = first + j / heads, of = head + j % heads;
        float *out = p->input.wide + from * in + of * dim, norm = 1.0f / total(a.totals[j]);
        int64_t before_gates = m->heads + (layer->has_keys ? 2 * m->kv_heads : 0);
        const float *gates = p->wide + from * p->wide_stride + (before_gates + of) * dim;
        if (layer->head_gates) norm *= p->gates[from * m->heads + of];
        for (int64_t i = 0; i < dim; i += LANES) *(Floats *)(out + i) = *(const Floats *)(a.out + j * dim + i) * norm;
        for (int64_t i = 0; layer->has_output_gates && i < dim; i += LANES)
            *(Floats *)(out + i) /= 1.0f + exponential(-*(const Floats *)(gates + i));
    }
}

/* The input of the last product: activated(gate) * up, or activated(up) without a gate. */
static void activate(Pass *p, int64_t row, int64_t size, int is_gated, int is_gelu, int64_t in) {
    const float *first = p->wide + row * p->wide_stride, *second = first + size;
    float *out = p->input.wide + row * in;
    for (int64_t i = 0; i < size; i += LANES) {
        Floats v = activated(*(const Floats *)(first + i), is_gelu);
        if (is_gated) v *= *(const Floats *)(second + i);
        *(Floats *)(out + i) = v;
    }
    memset(out + size, 0, (in - size) * sizeof(float));
    hand_over(p, row, in);
}

/* Go on only with the rows whose logits are wanted: behind the last layer that writes into arenas nothing reads the other
   rows, and a row's bits do not depend on its company. One thread gathers all numbers of these rows, with the next
   product's input if that is `in` wide. If no row is wanted, the pass is over. */
static void leave(Pass *p, int thread, const Layer *layer, int64_t in) {
    int64_t width = p->model->padded, heads = p->model->heads;
    for (int64_t n = 0; thread == 0 && n < p->wanted; n++) {
        int64_t row = p->wanted_rows[n];
        p->left[n] = p->places[row];
        if (row == n) continue;
        memcpy(p->x + n * width, p->x + row * width, width * sizeof(float));
        memcpy(p->wide + n * p->wide_stride, p->wide + row * p->wide_stride, p->wide_stride * sizeof(float));
        memcpy(p->gates + n * heads, p->gates + row * heads, heads * sizeof(float));
        memcpy(p->input.wide + n * in, p->input.wide + row * in, in * sizeof(float));
        if (has_both(layer)) memcpy(p->aside + n * width, p->aside + row * width, width * sizeof(float));
    }
    if (thread == 0) {
        p->places = p->left, p->wanted_rows = p->in_order, p->rows = p->wanted;
        for (int64_t h = 0; p->head.first && h <= heads; h++) p->head.first[h] = (int32_t)(h * p->rows);
    }
    meet(p);
}

static int leaves(const Pass *p, const Layer *layer) {
    return !p->model->early_at && layer == p->model->layers + p->model->leaves;
}

#include "latent.h"
#include "state.h"

static void full_block(Pass *p, int thread, int64_t i) {
    const Model *m = p->model;
    const Layer *layer = m->layers + i;
    int64_t in = layer->out.in, used = m->heads * m->head_dim;
    share_product(p, thread, &layer->qkv, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows) place(p, i, row);
    meet(p);
    if (leaves(p, layer) && !layer->state) leave(p, thread, layer, 0);
    if (!p->rows) return;
    int64_t height = rows_a_task(p);
    SHARE(task, (p->rows + height - 1) / height * m->kv_heads * parts_of(p)) attend(p, thread, layer, task, in);
    meet(p);
    SHARE(row, p->rows) {
        memset(p->input.wide + row * in + used, 0, (in - used) * sizeof(float));
        hand_over(p, row, in);
    }
    meet(p);
    share_product(p, thread, &layer->out, p->rows, m->is_parallel || has_both(layer) ? p->aside : p->delta, m->padded);
}

/* Make keys and values of all early layers, and go on only with the rows that are wanted. */
static void early_block(Pass *p, int thread) {
    const Model *m = p->model;
    int64_t size = m->kv_heads * m->head_dim;
    const Layer *before = m->layers + m->early_at - 1;
    SHARE(row, p->rows) add_and_norm(p, row, &before->after_mlp, (int)m->is_parallel, &m->early_norm, row);
    meet(p);
    share_product(p, thread, &m->early, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows)
        for (int64_t n = 0; n < m->early_count; n++) {
            float *made = p->wide + row * p->wide_stride + 2 * n * size;
            write_row(p, m->layers + m->early_writes[n], row, made, made + size, NULL);
        }
    meet(p);
    leave(p, thread, before, 0);
}

/* What stands before a layer's feed-forward part: attention, a state, or both. */
static void attention_block(Pass *p, int thread, int64_t i) {
    const Model *m = p->model;
    const Layer *layer = m->layers + i;
    const Norm *after = i ? &m->layers[i - 1].after_mlp : NULL;
    if (m->early_at && i == m->early_at) {
        early_block(p, thread);
        if (!p->rows) return;
        after = NULL; /* it is added already */
    }
    SHARE(row, p->rows) add_and_norm(p, row, after, (int)m->is_parallel, &layer->norm_in, row);
    meet(p);
    if (layer->latent) latent_block(p, thread, layer);
    else if (layer->out.out) full_block(p, thread, i);
    if (has_both(layer)) { /* attention has overwritten what the state is to read */
        SHARE(row, p->rows) add_and_norm(p, row, NULL, 0, &layer->norm_in, row);
        meet(p);
    }
    if (layer->state) state_block(p, thread, layer);
}

/* Take slots through their experts: those that were in memory, or those that were late. */
static void through_experts(Pass *p, int thread, const Experts *e, int late) {
    ExpertRows *x = &p->expert;
    share_groups(p, thread, e->up, e->count, x->first, &x->input, x->wide, x->wide_stride, e->late, late);
    SHARE(slot, p->rows * e->chosen)
        if (!e->late || e->late[x->expert_of[slot]] == late) activate_slot(p, e, slot, e->down->in);
    meet(p);
    share_groups(p, thread, e->down, e->count, x->first, &x->activated, x->out, p->model->padded, e->late, late);
}

static void experts_block(Pass *p, int thread, const Experts *e) {
    ExpertRows *x = &p->expert;
    int64_t slots = p->rows * e->chosen, padded = p->model->padded;
    SHARE(row, p->rows) choose_experts(p, e, row);
    meet(p);
    if (thread == 0) {
        assign_slots(p, e);
        if (e->late) x->late = p->model->fetch(e->number, p->rows, x->first, p->input.wide);
    }
    meet(p);
    SHARE(slot, slots) fill_slot(p, slot);
    meet(p);
    if (e->shared) {
        share_product(p, thread, &e->shared_up, p->rows, p->wide, p->wide_stride);
        SHARE(row, p->rows) activate(p, row, e->shared, 1, (int)e->is_gelu, e->shared_down.in);
        meet(p);
        share_product(p, thread, &e->shared_down, p->rows, p->delta, padded);
    }
    through_experts(p, thread, e, 0);
    if (e->late && x->late) { /* the others were computed while these were on their way */
        if (thread == 0) p->model->wait(e->number);
        meet(p);
        through_experts(p, thread, e, 1);
    }
    SHARE(row, p->rows) add_experts(p, e, row);
    meet(p);
}

static void mlp_block(Pass *p, int thread, int64_t i) {
    const Model *m = p->model;
    const Layer *layer = m->layers + i;
    const Norm *after = m->is_parallel ? NULL : &layer->after_attention;
    if (!layer->experts && !layer->up.out) return;
    SHARE(row, p->rows) add_and_norm(p, row, after, has_both(layer), &layer->norm_mlp, row);
    meet(p);
    if (layer->experts) {
        experts_block(p, thread, layer->experts);
        return;
    }
    share_product(p, thread, &layer->up, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows) activate(p, row, m->intermediate, (int)m->is_gated, (int)m->is_gelu, layer->down.in);
    meet(p);
    share_product(p, thread, &layer->down, p->rows, p->delta, m->padded);
}

static void correct_logits(Pass *p, int thread) {
    const Model *m = p->model;
    const Stored *head = &m->stored_head;
    int64_t first = begin_of(head->count, 1, p->threads, thread), last = begin_of(head->count, 1, p->threads, thread + 1);
    float floors[MOST_ROWS];
    for (int64_t n = 0; n < p->wanted; n++) floors[n] = least_near(head, p->logits + n * m->head.out);
    meet(p);
    for (int64_t n = 0; n < p->wanted; n++)
        compute_stored(head, p->input.wide + n * m->head.in, floors[n], first, last, p->logits + n * m->head.out);
    meet(p);
}

static void pass_share(Pass *p, int thread) {
    const Model *m = p->model;
    if (p->has_tiles) tiles_begin();
    for (int64_t i = 0; i < m->layer_count && p->rows; i++) {
        attention_block(p, thread, i);
        if (p->rows) mlp_block(p, thread, i);
    }
    const Norm *after = &m->layers[m->layer_count - 1].after_mlp;
    SHARE(n, p->wanted) add_and_norm(p, p->wanted_rows[n], after, (int)m->is_parallel, &m->norm, n);
    meet(p);
    share_product(p, thread, &m->head, p->wanted, p->logits, m->head.out);
    if (m->stored_head.format) correct_logits(p, thread);
    if (p->has_tiles) tiles_end();
}
