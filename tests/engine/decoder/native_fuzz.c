/* Random models and passes through the compiled decoder, beside a reference in double precision.

   Arguments: seconds, first seed, set of instructions. Every buffer that the decoder is given has its exact size, so that a sanitizer sees
   what is read or written past its end. A row must have the same bits alone as in company. All passes give way to the
   answers of another thread. */

#include "pass.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENAS 2
static const double CLOSE[] = {1e-3, 3e-2, 8e-2}; /* of the largest number: activations are rounded, in groups to bytes */

typedef struct Runner Runner;
Runner *efim_open(const Model *model, int threads, const char *set);
void efim_close(Runner *r);
void efim_pass(Runner *r, int64_t rows, int64_t shared, const Place *places, float *x, const float *token_values,
               int64_t wanted, const int64_t *wanted_rows, float *logits);
void efim_give_way(void);
void efim_count_answers(int more);
int efim_supported(const char *set);

/* A matrix as the decoder has it, and as numbers [outputs][inputs]. */
typedef struct {
    double *real;
    int64_t outputs, inputs;
} Real;

typedef struct {
    Model model;
    Layer layers[3];
    Real real[3][4], head; /* qkv, out, up, down */
    int64_t vocab, capacity, values; /* elements of what is added to the values of a token in all layers, or 0 */
    int64_t begins[256]; /* the first row that the row at each place sees */
    void *owned[256];
    int count;
} Case;

/* Keys and values of one sequence; the embedded tokens and their own values that made it; logits after each of them. */
typedef struct {
    float *k, *v, *x, *own, *logits;
    int64_t length;
    Held held; /* the same for the decoder */
} Arena;

static uint64_t state;
static unsigned long seed;
static const char *set = "avx512";

static uint32_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static int64_t between(int64_t low, int64_t high) { return low + draw() % (high - low + 1); }
static double real(double size) { return size * ((double)draw() / 1073741824.0 - 1.0); }
static int64_t rounded_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static void fail(const char *what, double found) {
    fprintf(stderr, "seed %lu: %s (%g)\n", seed, what, found);
    exit(1);
}

static void *owned(Case *c, size_t size) {
    void *memory = calloc(size ? size : 1, 1);
    if (!memory || c->count == 256) fail("no room", (double)size);
    return c->owned[c->count++] = memory;
}

static float *vector(Case *c, int64_t count, int64_t padded, double base, double size) {
    float *values = owned(c, padded * sizeof(float));
    for (int64_t i = 0; i < count; i++) values[i] = (float)(base + real(size));
    return values;
}

/* A matrix with a scale for each group of 32 inputs, of 4 or 8 bits. */
static Matrix in_groups(Case *c, Matrix m, int64_t outputs, int64_t inputs, int biased, Real *copy) {
    int64_t groups = m.in / 32;
    m.bits = draw() % 2 ? 4 : 8;
    int low = m.bits == 4 ? -8 : -127, high = m.bits == 4 ? 7 : 127;
    uint8_t *weights = owned(c, m.out * m.in * m.bits / 8);
    _Float16 *scales = owned(c, m.out * groups * sizeof *scales);
    for (int64_t n = 0; n < m.out; n++)
        for (int64_t i = 0; i < m.in; i++) {
            int w = n < outputs && i < inputs ? (int)between(low, high) : 0;
            _Float16 *scale = scales + n / 16 * 16 * groups + i / 32 * 16 + n % 16;
            if (i % 32 == 0 && n < outputs) *scale = (_Float16)((1.2 + real(0.5)) / high / sqrt(inputs));
            uint8_t *strip = weights + n / 16 * 16 * m.in * m.bits / 8;
            if (m.bits == 8) strip[i / 4 * 64 + n % 16 * 4 + i % 4] = (uint8_t)w;
            else strip[i / 8 * 64 + n % 16 * 4 + i % 4] |= (uint8_t)((w + 8) << (i % 8 < 4 ? 0 : 4));
            if (n < outputs && i < inputs) copy->real[n * inputs + i] = (double)w * *scale;
        }
    m.weights = weights, m.scales = scales;
    m.bias = biased ? vector(c, outputs, m.out, 0, 0.3) : NULL;
    return m;
}

static Matrix matrix(Case *c, int64_t outputs, int64_t inputs, int biased, Real *copy) {
    Matrix m = {.out = rounded_up(outputs, 16), .in = rounded_up(inputs, 64)};
    *copy = (Real){owned(c, outputs * inputs * sizeof(double)), outputs, inputs};
    if (c->model.form == GROUPS) return in_groups(c, m, outputs, inputs, biased, copy);
    int bytes = c->model.form == INT8 ? 1 : 2;
    char *weights = owned(c, m.out * m.in * bytes);
    float *scales = c->model.form == INT8 ? vector(c, m.out, m.out, 0, 0) : NULL;
    int32_t *sums = c->model.form == INT8 ? owned(c, m.out * sizeof(int32_t)) : NULL;
    for (int64_t n = 0; n < outputs; n++) {
        if (scales) scales[n] = (float)((1.2 + real(0.5)) / 127 / sqrt(inputs));
        for (int64_t i = 0; i < inputs; i++) {
            if (scales) {
                int8_t w = (int8_t)between(-127, 127);
                weights[n / 16 * 16 * m.in + i / 4 * 64 + n % 16 * 4 + i % 4] = w, sums[n] += 128 * w;
                copy->real[n * inputs + i] = (double)w * scales[n];
            } else {
                _Float16 half = (_Float16)(real(1.5) / sqrt(inputs));
                memcpy(weights + 2 * (n / 16 * 16 * m.in + i * 16 + n % 16), &half, 2);
                copy->real[n * inputs + i] = half;
            }
        }
    }
    m.weights = weights, m.scales = scales, m.sums = sums;
    m.bias = biased ? vector(c, outputs, m.out, 0, 0.3) : NULL;
    return m;
}

static Norm norm(Case *c, int layered) {
    int64_t hidden = c->model.hidden, padded = c->model.padded;
    return (Norm){vector(c, hidden, padded, 1, 0.3), layered ? vector(c, hidden, padded, 0, 0.3) : NULL};
}

/* The rows of the head once more, as a checkpoint has them. */
static void store_head(Case *c) {
    int64_t size = c->vocab * c->model.hidden, format = draw() % 2 ? STORED_FP32 : STORED_FP16;
    void *rows = owned(c, size * (format == STORED_FP32 ? 4 : 2));
    for (int64_t i = 0; i < size; i++)
        if (format == STORED_FP32) ((float *)rows)[i] = (float)c->head.real[i];
        else ((_Float16 *)rows)[i] = (_Float16)c->head.real[i];
    c->model.stored_head = (Stored){rows, c->vocab, c->model.hidden, format};
}

static void make(Case *c) {
    Model *m = &c->model;
    int64_t kv_heads = between(1, 3), group = between(1, 12);
    int layered = draw() % 2, head_norms = draw() % 2, head_gates = draw() % 2, token_values = draw() % 2;
    memset(c, 0, sizeof *c);
    m->hidden = draw() % 4 ? between(1, 130) : 16 * between(1, 8), m->padded = rounded_up(m->hidden, 64);
    m->kv_heads = kv_heads, m->heads = kv_heads * group, m->head_dim = 16 * between(1, draw() % 4 ? 3 : 8);
    m->intermediate = between(1, 150), m->layer_count = between(1, 3), m->epsilon = 1e-5f;
    m->form = draw() % 3, m->is_gated = draw() % 2, m->is_gelu = draw() % 2;
    m->value_dim = m->head_dim, m->scale = 1 / sqrtf((float)m->head_dim), m->leaves = m->layer_count - 1;
    c->values = token_values * m->layer_count * m->kv_heads * m->head_dim;
    c->vocab = between(1, 70), c->capacity = between(1, draw() % 4 ? 40 : 200);
    int64_t kind = draw() % 3, once = between(0, 20), begin = 0; /* all see all, some begin anywhere, all after one do */
    for (int64_t t = 0; t < c->capacity; t++)
        c->begins[t] = begin = (kind == 1 && draw() % 30 == 0) || (kind == 2 && t == once) ? between(0, t) : begin;
    float *rope = owned(c, c->capacity * m->head_dim * sizeof(float));
    for (int64_t i = 0; i < c->capacity * m->head_dim; i += 2) {
        double angle = real(3.2);
        rope[i] = (float)cos(angle), rope[i + 1] = (float)sin(angle);
    }
    m->layers = c->layers;
    for (int64_t i = 0; i < m->layer_count; i++) {
        int64_t width = m->heads * m->head_dim, all = (m->heads + 2 * m->kv_heads) * m->head_dim;
        Layer *layer = c->layers + i;
        layer->rope = rope, layer->at = i, layer->has_keys = 1, layer->has_output_gates = draw() % 4 == 0;
        all += layer->has_output_gates * width;
        layer->window = draw() % 3 ? 0 : between(1, c->capacity), layer->cap = draw() % 4 ? 0 : 2;
        layer->sinks = draw() % 4 ? NULL : vector(c, m->heads, m->heads, 0, 2);
        Real *copies = c->real[i];
        layer->norm_in = norm(c, layered), layer->norm_mlp = norm(c, layered);
        int64_t normed = (m->heads + m->kv_heads) * m->head_dim;
        layer->head_norms = head_norms ? vector(c, normed, normed, 1, 0.3) : NULL;
        layer->head_gates = head_gates ? vector(c, m->heads * GATE_INPUTS, m->heads * GATE_INPUTS, 0, 1) : NULL;
        int biased = draw() % 2;
        layer->qkv = matrix(c, all, m->hidden, biased, copies);
        layer->out = matrix(c, m->hidden, width, biased, copies + 1);
        layer->up = matrix(c, m->intermediate * (1 + m->is_gated), m->hidden, biased, copies + 2);
        layer->down = matrix(c, m->hidden, m->intermediate, biased, copies + 3);
    }
    m->norm = norm(c, layered);
    m->head = matrix(c, c->vocab, m->hidden, 0, &c->head);
    if (m->form == GROUPS && m->hidden % 16 == 0) store_head(c);
}

static void product(const Real *w, const float *bias, const double *x, double *y) {
    for (int64_t n = 0; n < w->outputs; n++) {
        y[n] = bias ? bias[n] : 0;
        for (int64_t i = 0; i < w->inputs; i++) y[n] += w->real[n * w->inputs + i] * x[i];
    }
}

static void normed(const double *x, int64_t count, const float *weight, const float *bias, double epsilon, double *y) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; bias && i < count; i++) mean += x[i] / count;
    for (int64_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean) / count;
    for (int64_t i = 0; i < count; i++)
        y[i] = (x[i] - mean) / sqrt(squares + epsilon) * weight[i] + (bias ? bias[i] : 0);
}

/* Keys and values of the reference, [layers][kv_heads][capacity][head_dim] as in arenas; `input` is normed, `own` are the
   token's values or NULL. */
static void attended(const Case *c, int64_t layer, int64_t at, const double *input, const float *own, double *qkv, double *k,
                     double *v, double *out) {
    const Model *m = &c->model;
    int64_t dim = m->head_dim;
    const Layer *l = c->layers + layer;
    int64_t begin = !l->window ? c->begins[at] : at < l->window ? 0 : at + 1 - l->window;
    const float *rope = l->rope + at * dim, *norms = l->head_norms;
    for (int64_t h = 0; h < m->heads + m->kv_heads; h++) {
        double *q = qkv + h * dim;
        if (norms) normed(q, dim, norms + h * dim, NULL, m->epsilon, q);
        for (int64_t i = 0; i < dim; i += 2) {
            double a = q[i], b = q[i + 1];
            q[i] = a * rope[i] - b * rope[i + 1], q[i + 1] = a * rope[i + 1] + b * rope[i];
        }
    }
    for (int64_t h = 0; h < m->kv_heads; h++) {
        int64_t slot = ((layer * m->kv_heads + h) * c->capacity + at) * dim;
        memcpy(k + slot, qkv + (m->heads + h) * dim, dim * sizeof(double));
        for (int64_t i = 0; i < dim; i++)
            v[slot + i] = qkv[(m->heads + m->kv_heads + h) * dim + i] +
                          (own ? own[(layer * m->kv_heads + h) * dim + i] : 0);
    }
    for (int64_t h = 0; h < m->heads; h++) {
        int64_t base = (layer * m->kv_heads + h / (m->heads / m->kv_heads)) * c->capacity * dim;
        double shares[256], sum = 0, peak = l->sinks ? l->sinks[h] : -1e300;
        for (int64_t t = begin; t <= at; t++) {
            shares[t] = 0;
            for (int64_t i = 0; i < dim; i++) shares[t] += qkv[h * dim + i] * k[base + t * dim + i] / sqrt(dim);
            if (l->cap) shares[t] = l->cap * tanh(shares[t] / l->cap);
            peak = fmax(peak, shares[t]);
        }
        sum = l->sinks ? exp(l->sinks[h] - peak) : 0;
        for (int64_t t = begin; t <= at; t++) sum += shares[t] = exp(shares[t] - peak);
        const float *gates = l->head_gates;
        const double *all_gates = qkv + (m->heads + 2 * m->kv_heads + h) * dim;
        double gate = 0;
        for (int64_t i = 0; gates && i < GATE_INPUTS && i < m->hidden; i++) gate += gates[h * GATE_INPUTS + i] * input[i];
        for (int64_t i = 0; i < dim; i++) {
            out[h * dim + i] = 0;
            for (int64_t t = begin; t <= at; t++) out[h * dim + i] += shares[t] / sum * v[base + t * dim + i];
            if (gates) out[h * dim + i] *= 2 / (1 + exp(-gate));
            if (l->has_output_gates) out[h * dim + i] /= 1 + exp(-all_gates[i]);
        }
    }
}

static double activated(const Model *m, double x) {
    double y = m->is_gelu ? x * (1.5957691216 + 0.0713548163 * x * x) : x;
    return x / (1 + exp(-y));
}

/* Logits [tokens][vocab] of a sequence from its embedded tokens [tokens][padded]. */
static void reference(const Case *c, const float *embedded, const float *own, int64_t tokens, double *logits) {
    const Model *m = &c->model;
    size_t size = m->layer_count * m->kv_heads * c->capacity * m->head_dim * sizeof(double);
    double *k = malloc(size), *v = malloc(size), x[256], n[256], wide[16384], out[8192];
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t i = 0; i < m->hidden; i++) x[i] = embedded[t * m->padded + i];
        for (int64_t l = 0; l < m->layer_count; l++) {
            const Layer *layer = m->layers + l;
            const Real *w = c->real[l];
            normed(x, m->hidden, layer->norm_in.weight, layer->norm_in.bias, m->epsilon, n);
            product(w, layer->qkv.bias, n, wide);
            attended(c, l, t, n, c->values ? own + t * c->values : NULL, wide, k, v, out);
            product(w + 1, layer->out.bias, out, n);
            for (int64_t i = 0; i < m->hidden; i++) x[i] += n[i];
            normed(x, m->hidden, layer->norm_mlp.weight, layer->norm_mlp.bias, m->epsilon, n);
            product(w + 2, layer->up.bias, n, wide);
            for (int64_t i = 0; i < m->intermediate; i++)
                out[i] = activated(m, wide[i]) * (m->is_gated ? wide[m->intermediate + i] : 1);
            product(w + 3, layer->down.bias, out, n);
            for (int64_t i = 0; i < m->hidden; i++) x[i] += n[i];
        }
        normed(x, m->hidden, m->norm.weight, m->norm.bias, m->epsilon, n);
        product(&c->head, NULL, n, logits + t * c->vocab);
    }
    free(k), free(v);
}

/* One pass over the next tokens[a] tokens of each arena; logits of every row are asked for, or of some. Both arenas
   begin with the same `alike` tokens. With `again`, some tokens of the first arena are computed again where they lie. */
static void pass(const Case *c, Runner *runner, Arena *arenas, const int64_t *tokens, int64_t alike, int all,
                 const int64_t *again) {
    const Model *m = &c->model;
    int64_t shared = alike;
    for (int a = 0; a < ARENAS; a++) shared = arenas[a].length < shared ? arenas[a].length : shared;
    int64_t rows = tokens[0] + tokens[1], row = 0, wanted = 0, which[MOST_ROWS], from[MOST_ROWS];
    if (again) shared = again[0] < shared ? again[0] : shared;
    Place *places = malloc(rows * sizeof(Place));
    float *x = malloc(rows * m->padded * sizeof(float)), *own = malloc(rows * c->values * sizeof(float) + 1);
    int64_t *asked = malloc((rows ? rows : 1) * sizeof(int64_t));
    for (int a = 0; a < ARENAS; a++)
        for (int64_t i = 0; i < tokens[a]; i++, row++) {
            Arena *arena = arenas + a;
            int64_t at = again && a == 0 ? again[i] : arena->length++;
            arena->held = (Held){arena->k, arena->v, c->capacity, 0};
            places[row] = (Place){&arena->held, c->begins[at], at, NULL, NULL};
            if (places[row].begin != places->begin) shared = 0;
            memcpy(x + row * m->padded, arena->x + at * m->padded, m->padded * sizeof(float));
            memcpy(own + row * c->values, arena->own + at * c->values, c->values * sizeof(float));
            if (all || draw() % 3 == 0) asked[wanted] = row, which[wanted] = a, from[wanted++] = at;
        }
    float *logits = malloc(wanted * m->head.out * sizeof(float) + 1);
    efim_pass(runner, rows, shared, places, x, c->values ? own : NULL, wanted, asked, logits);
    for (int64_t i = 0; i < wanted; i++)
        memcpy(arenas[which[i]].logits + from[i] * c->vocab, logits + i * m->head.out, c->vocab * sizeof(float));
    free(places), free(x), free(own), free(asked), free(logits);
}

static Arena arena(Case *c) {
    const Model *m = &c->model;
    int64_t size = m->layer_count * m->kv_heads * c->capacity * m->head_dim;
    Arena made = {owned(c, size * sizeof(float)), owned(c, size * sizeof(float)),
                  owned(c, c->capacity * m->padded * sizeof(float)), owned(c, c->capacity * c->values * sizeof(float)),
                  owned(c, c->capacity * c->vocab * sizeof(float)), 0, {0}};
    for (int64_t i = 0; i < size; i++) made.k[i] = NAN, made.v[i] = INFINITY; /* what lies behind a length is junk */
    for (int64_t i = 0; i < c->capacity * c->vocab; i++) made.logits[i] = NAN;
    return made;
}

/* The same sequence, one token at a time on one thread, and in double precision. */
static void check(Case *c, const Arena *found) {
    const Model *m = &c->model;
    Arena alone[ARENAS] = {arena(c)};
    int64_t one[ARENAS] = {1, 0};
    memcpy(alone->x, found->x, c->capacity * m->padded * sizeof(float));
    memcpy(alone->own, found->own, c->capacity * c->values * sizeof(float));
    Runner *runner = efim_open(m, 1, set);
    if (!runner) fail("no runner", 0);
    while (alone->length < found->length) pass(c, runner, alone, one, 0, 1, NULL);
    efim_close(runner);
    double *exact = malloc(c->capacity * c->vocab * sizeof(double)), largest = 1e-3;
    reference(c, found->x, found->own, found->length, exact);
    int64_t numbers = found->length * c->vocab, kv = m->layer_count * m->kv_heads * c->capacity * m->head_dim;
    for (int64_t i = 0; i < numbers; i++) largest = fmax(largest, fabs(exact[i]));
    for (int64_t i = 0; i < numbers; i++) {
        double off = fabs(alone->logits[i] - exact[i]) / largest;
        if (!(off <= (CLOSE[m->form]))) fail("logits are wrong", off);
        if (!isnan(found->logits[i]) && found->logits[i] != alone->logits[i]) fail("logits differ in company", off);
    }
    if (memcmp(found->k, alone->k, kv * sizeof(float))) fail("keys differ in company", 0);
    if (memcmp(found->v, alone->v, kv * sizeof(float))) fail("values differ in company", 0);
    free(exact);
}

/* Spoil keys and values at some places of the first arena, and compute them again with further tokens of the second. */
static void spoil_and_repair(const Case *c, Runner *runner, Arena *arenas, int64_t alike) {
    const Model *m = &c->model;
    int64_t again[MOST_ROWS], tokens[ARENAS] = {0, 0}, one_in = between(1, 20), left = c->capacity - arenas[1].length;
    for (int64_t at = 0; at < arenas->length && tokens[0] < MOST_ROWS / 2; at++)
        if (draw() % one_in == 0) again[tokens[0]++] = at;
    if (!tokens[0]) return;
    tokens[1] = between(0, left < 5 ? left : 5);
    for (int64_t i = 0; i < tokens[0]; i++)
        for (int64_t slot = 0; slot < m->layer_count * m->kv_heads; slot++)
            for (int64_t d = 0; d < m->head_dim; d++) {
                int64_t number = (slot * c->capacity + again[i]) * m->head_dim + d;
                arenas->k[number] = NAN, arenas->v[number] = INFINITY;
            }
    pass(c, runner, arenas, tokens, alike, 0, again);
}

static void run(Case *c, long *passes) {
    make(c);
    Arena arenas[ARENAS] = {arena(c), arena(c)};
    for (int a = 0; a < ARENAS; a++)
        for (int64_t t = 0; t < c->capacity; t++) {
            for (int64_t i = 0; i < c->model.hidden; i++)
                arenas[a].x[t * c->model.padded + i] = (float)real(draw() % 8 ? 2 : 200);
            for (int64_t i = 0; i < c->values; i++) arenas[a].own[t * c->values + i] = (float)real(2);
        }
    int64_t alike = draw() % 2 ? between(0, c->capacity) : 0;
    memcpy(arenas[1].x, arenas[0].x, alike * c->model.padded * sizeof(float));
    memcpy(arenas[1].own, arenas[0].own, alike * c->values * sizeof(float));
    Runner *runner = efim_open(&c->model, (int)between(1, 3), set);
    if (!runner) fail("no runner", 0);
    while (arenas[0].length + arenas[1].length < ARENAS * c->capacity) { /* full at the end, to the last token */
        int64_t tokens[ARENAS], room = MOST_ROWS, most = draw() % 3 ? 5 : MOST_ROWS;
        for (int a = 0; a < ARENAS; a++) {
            int64_t left = c->capacity - arenas[a].length;
            tokens[a] = between(0, left < most ? left : most);
            room -= tokens[a] = tokens[a] < room ? tokens[a] : room;
        }
        if (tokens[0] + tokens[1]) pass(c, runner, arenas, tokens, alike, 0, NULL), ++*passes;
        if (draw() % 3 == 0) spoil_and_repair(c, runner, arenas, alike), ++*passes;
    }
    efim_close(runner);
    for (int a = 0; a < ARENAS; a++) check(c, arenas + a);
    for (int i = 0; i < c->count; i++) free(c->owned[i]);
}

static void *answer(void *over) {
    while (!atomic_load((atomic_int *)over)) {
        efim_count_answers(1);
        sched_yield();
        efim_count_answers(-1);
        sched_yield();
    }
    return NULL;
}

int main(int count, char **arguments) {
    static atomic_int over;
    pthread_t answering;
    static Case c;
    unsigned long models = count > 1 ? strtoul(arguments[1], NULL, 10) : 100;
    unsigned long first = seed = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
    long passes = 0;
    if (count > 3) set = arguments[3];
    if (!efim_supported(set)) return printf("this CPU has no %s\n", set), 77;
    efim_give_way();
    if (pthread_create(&answering, NULL, answer, &over)) fail("no thread", 0);
    for (; seed < first + models; seed++) state = seed * 0x9e3779b97f4a7c15u + 1, run(&c, &passes);
    atomic_store(&over, 1);
    pthread_join(answering, NULL);
    printf("%lu models, %ld passes\n", models, passes);
    return 0;
}
