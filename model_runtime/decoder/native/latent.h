/* Attention over latents: of each token the arena holds one latent, which all heads share, and a rotated key.

   A head's query is brought to the latents' space, so no keys are computed from latents that would have to be kept. The
   scores equal the scores of keys that begin with the rotated key and end with the latent. */

#pragma once
#include "attention.h"
#include "elements.h"
#include "pass.h"

/* Norm a row's latent, and write it with the row's rotated key into the arena. The rest of the first product is the
   queries, or the numbers that queries are computed from. */
static void place_latent(Pass *p, const Layer *layer, int64_t row) {
    const Latent *l = layer->latent;
    const Held *held = p->places[row].held + layer->kind;
    int64_t position = p->places[row].position, slot = layer->at * held->capacity + position;
    int64_t made = l->query_rank ? l->query_rank : p->model->heads * (l->plain + l->rotated);
    float *latent = p->wide + row * p->wide_stride + made;
    rotate(latent + l->rank, layer->rope + position * l->rotated, l->rotated, held->k + slot * l->rotated);
    rms_norm(latent, l->rank, l->rank, l->latent_norm, p->model->latent_epsilon, held->v + slot * l->rank);
}

/* Norm what a row's queries are made of; it becomes the input of the next product. */
static void norm_query(Pass *p, const Latent *l, int64_t row) {
    int64_t in = l->query.in;
    float *out = p->input.wide + row * in;
    memset(out + l->query_rank, 0, (in - l->query_rank) * sizeof(float));
    rms_norm(p->wide + row * p->wide_stride, l->query_rank, l->query_rank, l->query_norm, p->model->latent_epsilon, out);
    hand_over(p, row, in);
}

/* Copy numbers of a row to their place among a head's rows, as the product wants them. */
static void fill_head(Pass *p, const Rows *rows, int64_t at, const float *from, int64_t count, int64_t in) {
    float *out = rows->wide + at * in;
    memcpy(out, from, count * sizeof(float));
    memset(out + count, 0, (in - count) * sizeof(float));
    prepare_row(p->model, rows, at, in);
}

/* Rotate the last numbers of a row's queries where they are; the others go through `keys`. */
static void place_queries(Pass *p, const Layer *layer, int64_t row) {
    const Latent *l = layer->latent;
    const float *rope = layer->rope + p->places[row].position * l->rotated;
    for (int64_t h = 0; h < p->model->heads; h++) {
        float *query = p->wide + row * p->wide_stride + h * (l->plain + l->rotated);
        fill_head(p, &p->head.plain, h * p->rows + row, query, l->plain, l->keys->in);
        rotate(query + l->plain, rope, l->rotated, query + l->plain);
    }
}

/* One task of attention: some rows and a part of the heads. */
static void attend_latents(Pass *p, int thread, const Layer *layer, int64_t task) {
    const Model *m = p->model;
    const Latent *l = layer->latent;
    int64_t parts = parts_of(p), part = task % parts, height = rows_a_task(p), first = task / parts * height;
    int64_t head = m->heads * part / parts, heads = m->heads * (part + 1) / parts - head;
    int64_t rows = first + height < p->rows ? height : p->rows - first, dim = l->rotated + l->rank;
    float unit = 1.44269504f * m->scale;
    Attention a = attention_scratch(p->scratch + thread * attention_size(dim, l->rank), l->rotated, dim, l->rank);
    const Place *places = p->places + first;
    for (int64_t j = 0; j < rows * heads; j++) {
        int64_t row = first + j / heads, of = head + j % heads;
        const float *turned = p->wide + row * p->wide_stride + of * (l->plain + l->rotated) + l->plain;
        const float *plain = p->head.queries + (of * p->rows + row) * p->head.query_stride;
        float *query = a.queries + j * dim;
        for (int64_t i = 0; i < l->rotated; i += LANES) *(Floats *)(query + i) = *(const Floats *)(turned + i) * unit;
        for (int64_t i = 0; i < l->rank; i += LANES)
            *(Floats *)(query + l->rotated + i) = *(const Floats *)(plain + i) * unit;
    }
    begin_queries(&a, rows, heads, NULL);
    for (int64_t row = 0, count; row < rows; row += count) {
        const Place *at = places + row;
        const Held *held = at->held + layer->kind;
        a.k = held->k + layer->at * held->capacity * l->rotated, a.v = held->v + layer->at * held->capacity * l->rank;
        if (row == 0 && p->shared) attend_prefix(&a, rows * heads, at->begin, p->shared);
        count = run_of(places, row, rows);
        attend_rows(&a, row * heads, count, heads, p->shared ? p->shared : at->begin, at->position);
    }
    for (int64_t j = 0; j < rows * heads; j++) {
        float *out = a.out + j * l->rank, norm = 1.0f / total(a.totals[j]);
        for (int64_t i = 0; i < l->rank; i += LANES) *(Floats *)(out + i) *= norm;
        fill_head(p, &p->head.found, (head + j % heads) * p->rows + first + j / heads, out, l->rank, l->values->in);
    }
}

/* Put what a row's heads have found side by side: the input of the last product. */
static void join_heads(Pass *p, const Latent *l, int64_t row, int64_t in) {
    int64_t heads = p->model->heads, used = heads * l->value;
    float *out = p->input.wide + row * in;
    for (int64_t h = 0; h < heads; h++)
        memcpy(out + h * l->value, p->head.out + (h * p->rows + row) * p->head.out_stride, l->value * sizeof(float));
    memset(out + used, 0, (in - used) * sizeof(float));
    hand_over(p, row, in);
}

static void latent_block(Pass *p, int thread, const Layer *layer) {
    const Model *m = p->model;
    const Latent *l = layer->latent;
    HeadRows *x = &p->head;
    share_product(p, thread, &l->first, p->rows, p->wide, p->wide_stride);
    SHARE(row, p->rows) place_latent(p, layer, row);
    if (leaves(p, layer)) {
        meet(p);
        leave(p, thread, layer, 0);
        if (!p->rows) return;
    }
    if (l->query_rank) {
        SHARE(row, p->rows) norm_query(p, l, row);
        meet(p);
        share_product(p, thread, &l->query, p->rows, p->wide, p->wide_stride);
    }
    SHARE(row, p->rows) place_queries(p, layer, row);
    meet(p);
    share_groups(p, thread, l->keys, m->heads, x->first, &x->plain, x->queries, x->query_stride, NULL, 0);
    int64_t height = rows_a_task(p);
    SHARE(task, (p->rows + height - 1) / height * parts_of(p)) attend_latents(p, thread, layer, task);
    meet(p);
    share_groups(p, thread, l->values, m->heads, x->first, &x->found, x->out, x->out_stride, NULL, 0);
    SHARE(row, p->rows) join_heads(p, l, row, layer->out.in);
    meet(p);
    share_product(p, thread, &layer->out, p->rows, p->delta, m->padded);
}
