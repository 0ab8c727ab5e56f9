/* What a pass is given, and how its threads meet. Structures are mirrored in library.py, field by field. */

#pragma once
#include <stdatomic.h>
#include <stdint.h>

#define DIGIT 254      /* see products.h */
#define KEYS 64          /* of a block of attention: with their values they stay in the first cache */
#define GATE_INPUTS 16   /* of the gates of a layer's attention: the first of its normed input */
#define MOST_QUERIES 320 /* of one task of attention, whose sums stay in the second cache */

typedef struct {
    /* Lanes are outputs. fp16: uint16_t [out / 16][in][16]. int8: int8_t [out / 16][in / 4][16][4]. */
    const void *weights;
    const float *scales; /* [out], int8 only */
    const int32_t *sums; /* [out], 128 times the sum of the row's weights, int8 only */
    const float *bias;   /* [out] or NULL */
    int64_t out, in;     /* padded */
} Matrix;

/* Of a layer norm, or of an RMS norm if `bias` is NULL. */
typedef struct {
    const float *weight, *bias; /* [padded] */
} Norm;

typedef struct {
    Norm norm_in, norm_mlp;
    const float *head_norms; /* RMS norms of queries and keys, [heads + kv_heads][head_dim], or NULL */
    const float *head_gates; /* [heads][GATE_INPUTS], or NULL */
    Matrix qkv, out, up, down; /* `up` is gate and up if the model is gated */
} Layer;

typedef struct {
    const Layer *layers;
    Norm norm;
    const float *rope; /* [context][head_dim], cosine and sine of each pair */
    Matrix head;
    int64_t layer_count, hidden, padded, heads, kv_heads, head_dim, intermediate;
    int64_t is_int8, is_gated, is_gelu; /* the activation is silu or gelu by tanh */
    float epsilon;
} Model;

/* A row's token stands at `position` of an arena, whose k and v are [layers][kv_heads][capacity][head_dim], and attends
   to those from `begin` to its own. */
typedef struct {
    float *k, *v;
    int64_t capacity, begin, position;
} Place;

/* Rows that go into a product: as they are, and for int8 in two digits, [rows][2][in], and their unit. */
typedef struct {
    float *wide;
    uint8_t *digits;
    float *units;
} Rows;

typedef struct {
    const Model *model;
    int threads;
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
    float *gates;        /* [rows][heads], of the layer's attention */
    float *scratch;      /* of attention, [threads][attention_size] */
    atomic_int arrived, epoch;
} Pass;

/* Floats of scratch that a thread's task of attention takes; attention.h lays it out. */
static inline int64_t attention_size(int64_t dim) { return MOST_QUERIES * (2 * dim + 16 + 1) + KEYS * dim; }

/* Wait until all threads of the pass are here. */
void meet(Pass *p);
