/* What a pass is given, and how its threads meet. Structures are mirrored in library.py, field by field. */

#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum { FP16, INT8, GROUPS }; /* forms of weights: halves, bytes with a scale for each row, and groups with a scale each */

#define DIGIT 254      /* see products.h */
#define KEYS 64          /* of a block of attention: with their values they stay in the first cache */
#define GATE_INPUTS 16   /* of the gates of a layer's attention: the first of its normed input */
#define MOST_ROWS 64     /* of a pass */
#define MOST_QUERIES 320 /* of one task of attention, whose sums stay in the second cache */

typedef struct {
    /* Lanes are outputs. fp16: uint16_t [out / 16][in][16]. int8, and groups of 8 bits: int8_t [out / 16][in / 4][16][4].
       Groups of 4 bits: uint8_t [out / 16][in / 8][16][4], in lower bits four inputs and in higher bits the next four. */
    const void *weights;
    const void *scales;  /* int8: float [out]; groups: fp16 [out / 16][in / 32][16] */
    const int32_t *sums; /* [out], 128 times the sum of the row's weights, int8 only */
    const float *bias;   /* [out] or NULL */
    int64_t out, in;     /* padded */
    int64_t bits;        /* of a weight */
} Matrix;

/* Of a layer norm, or of an RMS norm if `bias` is NULL. */
typedef struct {
    const float *weight, *bias; /* [padded] */
} Norm;

/* Attention over latents (arXiv 2405.04434): queries are brought to the latents' space head by head, and the results back. */
typedef struct {
    Matrix first, query;                    /* `query` is used if `query_rank` is not 0 */
    const float *query_norm, *latent_norm;  /* [padded], RMS norms */
    const Matrix *keys, *values;            /* [heads] */
    int64_t rank, plain, rotated, value, query_rank;
} Latent;

/* A feed-forward part of experts. */
typedef struct {
    const float *router;            /* [count][padded] */
    const float *bias, *correction; /* [count], of scores before they are any and for the choice alone, or NULL */
    const float *shared_gate;       /* [padded], or NULL */
    const Matrix *up, *down;        /* [count], `up` is gate and up */
    Matrix shared_up, shared_down;  /* if `shared` is not 0 */
    int64_t count, chosen, intermediate, shared, groups, chosen_groups, group_best;
    int64_t is_sigmoid, is_normalized, is_gelu, is_clamped;
    int64_t number;                 /* among layers whose experts are not all in memory, see Model */
    uint8_t *late;                  /* [count], set by `fetch`; NULL if all are in memory */
    float scale;
} Experts;

#define MOST_TAPS 8 /* tokens that a convolution reads */

/* A layer's state, see state.h. Without heads it is a convolution alone. */
typedef struct {
    Matrix first, out;
    const float *conv, *conv_bias;                /* [kernel][channels], [channels] or NULL */
    const float *step_bias, *rates, *skip, *norm; /* [heads], the same, the same or NULL, [heads][value] or NULL */
    int64_t channels, kernel, heads, groups, key, value, normed;
    int64_t inputs_at, memory_at; /* in the states of an arena */
    int64_t is_correcting, is_gated_first;
    float least_step, most_step;
} State;

typedef struct {
    Norm norm_in, norm_mlp;
    Norm after_attention, after_mlp; /* of what a part adds; without weights if it is added as it is */
    const float *head_norms;         /* RMS norms of queries and keys, [heads + kv_heads][head_dim], or NULL */
    const float *head_gates;         /* [heads][GATE_INPUTS], or NULL */
    const float *sinks;              /* scores without a key, [heads], or NULL */
    const float *rope;               /* [context][head_dim], cosine and sine of each pair */
    const Latent *latent;            /* instead of `qkv`, or NULL */
    const Experts *experts;          /* instead of `up` and `down`, or NULL */
    const State *state;              /* with attention or instead of it, or NULL */
    Matrix qkv, out, up, down;       /* `up` is gate and up if the model is gated; without outputs a part is missing */
    int64_t kind, at;                /* where its keys and values are, see Held */
    int64_t window;                  /* keys that a token sees, its own included; 0 for all */
    int64_t has_keys;                /* in `qkv`, which else gives queries alone: it reads what another wrote, or it itself
                                        early */
    int64_t has_output_gates;        /* of each number of attention's output, behind `qkv`'s values */
    float cap;                       /* of scores, 0 for none */
} Layer;

/* Rows of the head as they are stored, see head.h; none if there is no format. */
typedef struct {
    const void *rows;             /* [count][width] */
    int64_t count, width, format; /* whole lanes; STORED_FP32 and so on */
} Stored;

enum { NOT_STORED, STORED_FP32, STORED_FP16, STORED_BF16 };

typedef struct {
    const Layer *layers;
    Norm norm;
    Matrix head;
    Stored stored_head;
    int64_t layer_count, hidden, padded, heads, kv_heads;
    int64_t head_dim, value_dim; /* of a key and of a value; over latents, of rotated key and latent, and of latent */
    int64_t intermediate;
    int64_t form; /* of weights: FP16, INT8 or GROUPS */
    int64_t is_gated, is_gelu;          /* the activation is silu or gelu by tanh */
    int64_t is_parallel;                /* a layer's parts read the same input */
    int64_t leaves;                     /* the last layer that writes into arenas: see `leave` */
    /* In front of layer `early_at`, if that is not 0, `early` makes keys and values for later layers, listed in
       `early_writes`, from the stream that `early_norm` has normed. */
    int64_t early_at, early_count;
    const int64_t *early_writes;
    Norm early_norm;
    Matrix early;
    float epsilon, latent_epsilon;
    float scale; /* of scores */
    /* For models whose experts are not all in memory: start to bring the experts of a layer that rows have chosen (`first` as
       in ExpertRows, `x` the rows' normed inputs); mark the experts to wait for as `late`, and return their number. */
    int64_t (*fetch)(int64_t number, int64_t rows, const int32_t *first, const float *x);
    void (*wait)(int64_t number);  /* until the late ones are in memory */
} Model;

/* What an arena holds of one kind of layers: k and v are [layers of the kind][kv_heads][capacity][head_dim], of the
   tokens from `base` on. */
typedef struct {
    float *k, *v;
    int64_t capacity, base;
} Held;

/* A row's token stands at `position` of an arena and attends to those from `begin` to its own, or in layers with a window to
   the last ones. `held` has one for each kind of layers; rows of one arena share it. `state` are the live states of the
   arena, and `keep` is where a copy of them after the row's token goes, or NULL. */
typedef struct {
    const Held *held;
    int64_t begin, position;
    float *state, *keep;
} Place;

/* Rows that go into a product: as they are, and for int8 in two digits, [rows][2][in], and their unit; for groups see groups.h. */
typedef struct {
    float *wide;
    uint8_t *digits;
    float *units;
} Rows;

#define MOST_EXPERTS 1024

/* Rows among the experts of a layer. A choice is a row's `rank`-th expert, in the order of their numbers; each has a slot. */
typedef struct {
    int32_t *chosen, *slot_of; /* [choices] */
    float *shares;             /* [choices] */
    float *shared_shares;      /* [rows], of the shared expert */
    int32_t *row_of;           /* [slots] */
    int32_t *expert_of;        /* [slots] */
    int32_t *first;            /* [count + 1], the first slot of each expert */
    int64_t late;              /* experts that are to be waited for */
    Rows input, activated;     /* of slots */
    float *wide, *out;         /* [slots][wide_stride], [slots][padded] */
    int64_t wide_stride;
} ExpertRows;

/* Rows of each head, for models whose attention is over latents: a head's rows lie side by side. */
typedef struct {
    int32_t *first;      /* [heads + 1], the first row of each head */
    Rows plain, found;   /* inputs of `keys` and of `values` */
    float *queries;      /* [heads * rows][query_stride], outputs of `keys` */
    float *out;          /* [heads * rows][out_stride], outputs of `values` */
    int64_t query_stride, out_stride;
} HeadRows;

typedef struct {
    const Model *model;
    int threads, gives_way;
    int64_t rows, wanted, wide_stride;
    /* End of the keys and values that all rows' arenas have in common and all rows see from the same `begin` on, a
       multiple of KEYS; 0 if there are none. */
    int64_t shared;
    const Place *places;        /* [rows], of one arena in order of position */
    const int64_t *wanted_rows; /* [wanted], whose logits are asked for */
    float *x;                   /* [rows][padded], embedded tokens; changed */
    const float *token_values;  /* [rows][layers][kv_heads][head_dim], added to values, or NULL */
    float *logits;              /* [wanted][head.out] */
    Rows input;
    int has_tiles;
    float *delta, *wide; /* [rows][padded], [rows][wide_stride] */
    float *aside;        /* the attention's output until it is added, [rows][padded] */
    float *convolved;    /* outputs of a state's convolution, [rows][channels] */
    float *gates;        /* [rows][heads], of the layer's attention */
    ExpertRows expert;   /* of models that have experts */
    HeadRows head;       /* of models whose attention is over latents */
    float *scratch;      /* of attention, [threads][attention_size] */
    Place left[MOST_ROWS]; /* places of the rows that are left, and their numbers */
    int64_t in_order[MOST_ROWS];
    atomic_int arrived, epoch;
} Pass;

/* Floats of scratch that a thread's task of attention takes; attention.h lays it out. */
static inline int64_t attention_size(int64_t dim, int64_t width) {
    return MOST_QUERIES * (dim + width + 16 + 1) + KEYS * dim;
}

/* Wait until all threads of the pass are here. */
void meet(Pass *p);

/* Wait while there are answers under way, in passes of a thread that gives way. */
void give_way(const Pass *p);
