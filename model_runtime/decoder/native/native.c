/* Opens a model for passes: owns scratch memory and the helping threads. */

#include "sets.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define MOST_THREADS 64
#define SPINS 2000 /* about a tenth of a millisecond: between the passes of an answer helpers stay awake */
#define ASLEEP 500000 /* nanoseconds between looks for answers: who ends an answer need not wake others, which takes time */
#define AWAKE 1000000 /* nanoseconds in which all threads of a pass meet, unless others have the cores */

typedef struct {
    Pass pass;
    const Set *set;
    pthread_t helpers[MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t begun, met;
    atomic_int generation, closing, started, asleep;
    int helping;
} Runner;

#ifdef __x86_64__
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __asm__ volatile("yield")
#endif

#define TEXT(x) #x
#define SPELLED(x) TEXT(x)

/* A hash of the sources this was built from, given by setup.py. */
const char *efim_sources(void) { return SPELLED(SOURCES); }

static int has_met(Pass *p, int epoch) { return atomic_load_explicit(&p->epoch, memory_order_acquire) != epoch; }

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Answers under way that keys wait for: passes of threads that give way wait until there are none. */
static atomic_int answers;
static _Thread_local int gives_way;

/* Have the passes of this thread wait for answers. */
void efim_give_way(void) { gives_way = 1; }

/* Count more answers, or fewer. */
void efim_count_answers(int more) { atomic_fetch_add(&answers, more); }

/* Wait until there are none. */
void efim_wait_for_answers(void) {
    while (atomic_load(&answers) > 0) nanosleep(&(struct timespec){0, ASLEEP}, NULL);
}

void give_way(const Pass *p) {
    if (p->gives_way) efim_wait_for_answers();
}

void meet(Pass *p) {
    if (p->threads == 1) return;
    Runner *r = (Runner *)p; /* whose first member it is */
    int epoch = atomic_load(&p->epoch);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == p->threads) {
        atomic_store(&p->arrived, 0);
        atomic_fetch_add(&p->epoch, 1);
        if (!atomic_load(&r->asleep)) return;
        pthread_mutex_lock(&r->lock);
        pthread_cond_broadcast(&r->met);
        pthread_mutex_unlock(&r->lock);
        return;
    }
    for (int spins = 0; spins < SPINS; spins++) {
        if (has_met(p, epoch)) return;
        PAUSE();
    }
    for (int64_t end = now() + AWAKE; now() < end; sched_yield())
        if (has_met(p, epoch)) return;
    pthread_mutex_lock(&r->lock); /* another process has the core that one of us needs: it may have this one */
    atomic_fetch_add(&r->asleep, 1);
    while (!has_met(p, epoch)) pthread_cond_wait(&r->met, &r->lock);
    atomic_fetch_sub(&r->asleep, 1);
    pthread_mutex_unlock(&r->lock);
}

static void wait_for(Runner *r, int generation) {
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load(&r->generation) != generation) return;
        PAUSE();
    }
    pthread_mutex_lock(&r->lock);
    while (atomic_load(&r->generation) == generation) pthread_cond_wait(&r->begun, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void *help(void *argument) {
    Runner *r = argument;
    int thread = atomic_fetch_add(&r->started, 1) + 1, generation = 0;
    for (;;) {
        wait_for(r, generation);
        generation++;
        if (atomic_load(&r->closing)) return NULL;
        r->set->share(&r->pass, thread);
    }
}

static void begin(Runner *r) {
    pthread_mutex_lock(&r->lock);
    atomic_fetch_add(&r->generation, 1);
    pthread_cond_broadcast(&r->begun);
    pthread_mutex_unlock(&r->lock);
}

static int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whole lanes may be read from where the second half of gate and up begins. */
static int64_t with_lanes(int64_t wide) { return (wide + 127) / 64 * 64; }

static int64_t widest(const Model *m) {
    int64_t wide = m->early_at ? m->early.out : 0;
    for (const Layer *layer = m->layers; layer < m->layers + m->layer_count; layer++) {
        const Matrix *up = layer->experts ? &layer->experts->shared_up : &layer->up;
        int64_t queries = layer->latent ? larger_of(layer->latent->first.out, layer->latent->query.out) : layer->qkv.out;
        if (layer->state) queries = larger_of(queries, layer->state->first.out);
        wide = larger_of(wide, larger_of(queries, up->out));
    }
    return with_lanes(wide);
}

static int64_t deepest(const Model *m) {
    int64_t in = m->padded;
    for (const Layer *layer = m->layers; layer < m->layers + m->layer_count; layer++) {
        const Matrix *down = layer->experts ? &layer->experts->shared_down : &layer->down;
        in = larger_of(in, larger_of(layer->out.in, down->in));
        if (layer->latent) in = larger_of(in, layer->latent->query.in);
        if (layer->state) in = larger_of(in, layer->state->out.in);
    }
    return in;
}

static int64_t most_channels(const Model *m) {
    int64_t most = 1;
    for (const Layer *layer = m->layers; layer < m->layers + m->layer_count; layer++)
        if (layer->state && layer->state->heads) most = larger_of(most, layer->state->channels);
    return most;
}

static int needs_aside(const Model *m) {
    int needed = m->is_parallel != 0;
    for (const Layer *layer = m->layers; layer < m->layers + m->layer_count; layer++)
        needed |= layer->state && layer->out.out;
    return needed;
}

#define SPARE_SLOTS 16 /* tiles read whole groups of rows */

static int allocate_rows(Rows *rows, int64_t count, int64_t in) {
    rows->wide = calloc(count * in, sizeof(float));
    rows->digits = calloc(count * 2 * in, 1);
    rows->units = calloc(count, sizeof(float));
    return rows->wide && rows->digits && rows->units;
}

/* Room for the rows of a pass among the experts of the layer that takes the most; none without experts. */
static int allocate_experts(ExpertRows *x, const Model *m) {
    int64_t chosen = 0, count = 0, wide = 0, in = 0;
    for (const Layer *layer = m->layers; layer < m->layers + m->layer_count; layer++) {
        const Experts *e = layer->experts;
        if (!e) continue;
        chosen = larger_of(chosen, e->chosen), count = larger_of(count, e->count);
        wide = larger_of(wide, e->up->out), in = larger_of(in, e->down->in);
    }
    if (!chosen) return 1;
    int64_t slots = MOST_ROWS * chosen + SPARE_SLOTS;
    x->wide_stride = with_lanes(wide);
    x->chosen = calloc(slots, sizeof(int32_t)), x->slot_of = calloc(slots, sizeof(int32_t));
    x->row_of = calloc(slots, sizeof(int32_t)), x->expert_of = calloc(slots, sizeof(int32_t)), x->first = calloc(count + 1, sizeof(int32_t));
    x->shares = calloc(slots, sizeof(float)), x->shared_shares = calloc(MOST_ROWS, sizeof(float));
    x->wide = calloc(slots * x->wide_stride, sizeof(float)), x->out = calloc(slots * m->padded, sizeof(float));
    return allocate_rows(&x->input, slots, m->padded) & allocate_rows(&x->activated, slots, in) && x->chosen &&
           x->slot_of && x->row_of && x->expert_of && x->first && x->shares && x->shared_shares && x->wide && x->out;
}

/* Room for the rows of each head; none without attention over latents. */
static int allocate_heads(HeadRows *x, const Model *m) {
    const Latent *l = m->layers->latent;
    if (!l) return 1;
    int64_t rows = MOST_ROWS * m->heads;
    x->query_stride = l->keys->out, x->out_stride = l->values->out;
    x->first = calloc(m->heads + 1, sizeof(int32_t));
    x->queries = calloc(rows * x->query_stride, sizeof(float)), x->out = calloc(rows * x->out_stride, sizeof(float));
    return allocate_rows(&x->plain, rows + SPARE_SLOTS, l->keys->in) &
           allocate_rows(&x->found, rows + SPARE_SLOTS, l->values->in) && x->first && x->queries && x->out;
}

static void free_rows(Rows *rows) { free(rows->wide), free(rows->digits), free(rows->units); }

static void free_experts(ExpertRows *x) {
    free(x->chosen), free(x->slot_of), free(x->row_of), free(x->expert_of), free(x->first), free(x->shares), free(x->shared_shares);
    free(x->wide), free(x->out);
    free_rows(&x->input), free_rows(&x->activated);
}

static void free_heads(HeadRows *x) {
    free(x->first), free(x->queries), free(x->out);
    free_rows(&x->plain), free_rows(&x->found);
}

static int allocate(Runner *r) {
    Pass *p = &r->pass;
    const Model *m = p->model;
    int64_t deep = deepest(m);
    p->wide_stride = widest(m);
    int good = allocate_rows(&p->input, MOST_ROWS, deep) & allocate_experts(&p->expert, m) & allocate_heads(&p->head, m);
    p->delta = calloc(MOST_ROWS * m->padded, sizeof(float));
    p->aside = calloc(needs_aside(m) ? MOST_ROWS * m->padded : 1, sizeof(float));
    p->convolved = calloc(MOST_ROWS * most_channels(m), sizeof(float));
    p->gates = calloc(MOST_ROWS * m->heads, sizeof(float));
    p->wide = calloc(MOST_ROWS * p->wide_stride, sizeof(float));
    p->has_tiles = m->form == INT8 && r->set->has_tiles && r->set->has_tiles();
    p->scratch = calloc(p->threads * attention_size(m->head_dim, m->value_dim), sizeof(float));
    return good && p->delta && p->aside && p->convolved && p->gates && p->wide && p->scratch;
}

void efim_close(Runner *r) {
    atomic_store(&r->closing, 1);
    begin(r);
    for (int i = 0; i < r->helping; i++) pthread_join(r->helpers[i], NULL);
    Pass *p = &r->pass;
    free_rows(&p->input);
    free_experts(&p->expert);
    free_heads(&p->head);
    free(p->delta), free(p->aside), free(p->convolved), free(p->gates), free(p->wide), free(p->scratch);
    free(r);
}

/* The model must outlive the runner, and this CPU must have the set of that name. NULL without enough memory or threads;
   `threads`: 1 to MOST_THREADS. */
Runner *efim_open(const Model *model, int threads, const char *set) {
    Runner *r = calloc(1, sizeof(Runner));
    if (!r) return NULL;
    r->pass.model = model, r->pass.threads = threads, r->set = set_of(set);
    for (int64_t row = 0; row < MOST_ROWS; row++) r->pass.in_order[row] = row;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->begun, NULL);
    pthread_cond_init(&r->met, NULL);
    int good = allocate(r);
    for (; good && r->helping < threads - 1; r->helping += good)
        good = !pthread_create(&r->helpers[r->helping], NULL, help, r);
    if (good) return r;
    return efim_close(r), NULL;
}

/* At most MOST_ROWS rows; fields as in Pass. One pass at a time. */
void efim_pass(Runner *r, int64_t rows, int64_t shared, const Place *places, float *x,
               const float *token_values, int64_t wanted, const int64_t *wanted_rows, float *logits) {
    Pass *p = &r->pass;
    p->rows = rows, p->shared = shared / KEYS * KEYS, p->places = places;
    p->x = x, p->token_values = token_values, p->gives_way = gives_way;
    if (rows && p->shared <= places->begin) p->shared = 0;
    p->wanted = wanted, p->wanted_rows = wanted_rows, p->logits = logits;
    for (int64_t h = 0; p->head.first && h <= p->model->heads; h++) p->head.first[h] = (int32_t)(h * rows);
    if (p->threads > 1) begin(r);
    r->set->share(p, 0);
}
