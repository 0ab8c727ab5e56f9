/* Opens a model for passes: owns scratch memory and the helping threads. */

#include "sets.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define MOST_ROWS 64
#define MOST_THREADS 64
#define SPINS 2000 /* about a tenth of a millisecond: between the passes of an answer helpers stay awake */

typedef struct {
    Pass pass;
    const Set *set;
    pthread_t helpers[MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t begun;
    atomic_int generation, closing, started;
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

void meet(Pass *p) {
    if (p->threads == 1) return;
    int epoch = atomic_load(&p->epoch);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == p->threads) {
        atomic_store(&p->arrived, 0);
        atomic_fetch_add(&p->epoch, 1);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&p->epoch, memory_order_acquire) == epoch; spins++) {
        if (spins < SPINS) PAUSE();
        else sched_yield(); /* another process has the core that one of us needs */
    }
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

static int64_t widest(const Model *m) {
    const Layer *layer = m->layers;
    int64_t wide = layer->qkv.out > layer->up.out ? layer->qkv.out : layer->up.out;
    return (wide + 127) / 64 * 64; /* whole lanes may be read from where the second half of gate and up begins */
}

static int64_t deepest(const Model *m) {
    const Layer *layer = m->layers;
    int64_t in = layer->out.in > layer->down.in ? layer->out.in : layer->down.in;
    return in > m->padded ? in : m->padded;
}

static int allocate(Runner *r) {
    Pass *p = &r->pass;
    const Model *m = p->model;
    int64_t deep = deepest(m);
    p->wide_stride = widest(m);
    p->input.wide = calloc(MOST_ROWS * deep, sizeof(float));
    p->input.digits = calloc(MOST_ROWS * 2 * deep, 1);
    p->input.units = calloc(MOST_ROWS, sizeof(float));
    p->delta = calloc(MOST_ROWS * m->padded, sizeof(float));
    p->gates = calloc(MOST_ROWS * m->heads, sizeof(float));
    p->wide = calloc(MOST_ROWS * p->wide_stride, sizeof(float));
    p->has_tiles = m->is_int8 && r->set->has_tiles && r->set->has_tiles();
    p->scratch = calloc(p->threads * attention_size(m->head_dim), sizeof(float));
    return p->input.wide && p->input.digits && p->input.units && p->delta && p->gates && p->wide && p->scratch;
}

void efim_close(Runner *r) {
    atomic_store(&r->closing, 1);
    begin(r);
    for (int i = 0; i < r->helping; i++) pthread_join(r->helpers[i], NULL);
    Pass *p = &r->pass;
    free(p->input.wide), free(p->input.digits), free(p->input.units);
    free(p->delta), free(p->gates), free(p->wide), free(p->scratch);
    free(r);
}

/* The model must outlive the runner, and this CPU must have the set of that name. NULL without enough memory or threads;
   `threads`: 1 to MOST_THREADS. */
Runner *efim_open(const Model *model, int threads, const char *set) {
    Runner *r = calloc(1, sizeof(Runner));
    if (!r) return NULL;
    r->pass.model = model, r->pass.threads = threads, r->set = set_of(set);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->begun, NULL);
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
    p->x = x, p->token_values = token_values;
    if (rows && p->shared <= places->begin) p->shared = 0;
    p->wanted = wanted, p->wanted_rows = wanted_rows, p->logits = logits;
    if (p->threads > 1) begin(r);
    r->set->share(p, 0);
}
