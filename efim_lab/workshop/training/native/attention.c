/* Causal attention over rows, forward and backward, by tiles of 64 queries and 64 keys that stay in the cache.

   Products are of bf16 with fp32 sums. The right operand of a product is packed: [pairs][columns][2], two neighbours
   of the summed dimension side by side, as the CPU's bf16 products want them. `heads` query heads share `kv_heads`
   heads of keys and values; a head has 64 elements; a row of `qkv` holds queries, keys, values. */

#include "tiles.h"
#include <math.h>
#include <string.h>

#define TILE 64
#define DIM 64
#define ALIGNED __attribute__((aligned(64)))
#define HEAD_SCALE 0.125f /* 1 / sqrt(64) */
#define SCORE_SCALE (LOG2_E * HEAD_SCALE)
#define NEVER -1e30f /* a score that nothing exceeds */

typedef struct {
    int64_t length, heads, stride; /* stride: elements of a token in qkv */
    const int32_t *starts;         /* [length]: the first key that each query may see */
} Row;

/* c[64][64] = (add ? c : 0) + a[64][2 * pairs] b[pairs][.. columns][2], by blocks of 8 x 32 in registers. */
INLINE void multiply_lanes(float *c, const Bf16 *a, int64_t a_stride, const Bf16 *b, int64_t columns, int pairs, int add) {
    for (int column = 0; column < TILE; column += 2 * LANES)
        for (int row = 0; row < TILE; row += 8) {
            Floats sums[8][2];
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                for (int half = 0; half < 2; half++)
                    sums[i][half] = add ? _mm512_loadu_ps(c + (row + i) * TILE + column + half * LANES) : spread(0);
            const Bf16 *left = a + row * a_stride, *right = b + 2 * column;
            for (int pair = 0; pair < pairs; pair++, left += 2, right += 2 * columns) {
                __m512bh low = (__m512bh)_mm512_loadu_si512(right), high = (__m512bh)_mm512_loadu_si512(right + 32);
#pragma GCC unroll 8
                for (int i = 0; i < 8; i++) {
                    int32_t both;
                    memcpy(&both, left + i * a_stride, 4);
                    __m512bh one = (__m512bh)_mm512_set1_epi32(both);
                    sums[i][0] = _mm512_dpbf16_ps(sums[i][0], one, low);
                    sums[i][1] = _mm512_dpbf16_ps(sums[i][1], one, high);
                }
            }
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                for (int half = 0; half < 2; half++)
                    _mm512_storeu_ps(c + (row + i) * TILE + column + half * LANES, sums[i][half]);
        }
}

/* The same, in AMX's tiles if the CPU has them; `begin` and `end` enclose its uses. */
INLINE void multiply(float *c, const Bf16 *a, int64_t a_stride, const Bf16 *b, int64_t columns, int pairs, int add) {
    if (!tiles_usable()) {
        multiply_lanes(c, a, a_stride, b, columns, pairs, add);
        return;
    }
    for (int row = 0; row < TILE; row += TILE_BLOCK)
        for (int column = 0; column < TILE; column += TILE_BLOCK) {
            TileOperand left = {a + row * a_stride, 2 * a_stride, TILE_DEPTH};
            TileOperand right = {b + 2 * column, 4 * columns, TILE_DEPTH * columns};
            tile_block(c + row * TILE + column, TILE, left, right, 2 * pairs, add);
        }
}

INLINE void begin(void) {
    if (tiles_usable()) tiles_begin();
}

INLINE void end(void) {
    if (tiles_usable()) tiles_end();
}

/* to[64 / 2][columns][2] from 64 elements of each of `count` tokens: pairs along the elements. */
static void pack_elements(const Bf16 *from, int64_t stride, int64_t count, Bf16 *to, int64_t columns) {
    for (int64_t token = 0; token < count; token++)
        for (int pair = 0; pair < DIM / 2; pair++) memcpy(to + 2 * (pair * columns + token), from + token * stride + 2 * pair, 4);
}

/* to[count / 2][64][2]: pairs along the tokens. */
static void pack_tokens(const Bf16 *from, int64_t stride, int64_t count, Bf16 *to) {
    for (int64_t token = 0; token < count; token += 2)
        for (int i = 0; i < DIM; i++) {
            to[token * DIM + 2 * i] = from[token * stride + i];
            to[token * DIM + 2 * i + 1] = from[(token + 1) * stride + i];
        }
}

/* to[64][count]: elements by tokens. */
static void transpose(const Bf16 *from, int64_t stride, int64_t count, Bf16 *to) {
    for (int64_t token = 0; token < count; token++)
        for (int i = 0; i < DIM; i++) to[i * count + token] = from[token * stride + i];
}

/* Rows of tokens from a tile [64 elements][64 tokens], each token times its factor. */
static void write_tokens(const float *tile, const float *factors, Bf16 *to, int64_t stride) {
    for (int token = 0; token < TILE; token += LANES)
        for (int element = 0; element < DIM; element += LANES) {
            Floats rows[LANES];
            for (int i = 0; i < LANES; i++) rows[i] = _mm512_load_ps(tile + (element + i) * TILE + token);
            transpose_lanes(rows);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                narrowed(to + (token + i) * stride + element, _mm512_mul_ps(rows[i], spread(factors[token + i])));
        }
}

/* Store two rows of sixteen as pairs. */
INLINE void weave(Bf16 *to, Floats first, Floats second) {
    const __m512i woven = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                           5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(woven, (__m512i)_mm512_cvtne2ps_pbh(second, first)));
}

/* Which of sixteen queries, from `query` on, may see the key. */
INLINE __mmask16 seeing(const Row *row, int64_t query, int64_t key) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i own = _mm512_set1_epi32((int)key), place = _mm512_add_epi32(lane, _mm512_set1_epi32((int)query));
    return _mm512_cmple_epi32_mask(own, place) & _mm512_cmple_epi32_mask(_mm512_loadu_si512(row->starts + query), own);
}

/* Starts may fall again: what follows MIDDLE sees excerpts that the rest of its sample does not. */
INLINE __m512i starts_of(const Row *row, int64_t query) { return _mm512_loadu_si512(row->starts + query); }

/* The tile of keys with the first that any query of a tile sees. */
INLINE int64_t first_seen(const Row *row, int64_t first) {
    __m512i least = starts_of(row, first);
    for (int j = LANES; j < TILE; j += LANES) least = _mm512_min_epi32(least, starts_of(row, first + j));
    return _mm512_reduce_min_epi32(least) / TILE * TILE;
}

/* Whether all queries of a tile see all keys of another. */
INLINE int all_seen(const Row *row, int64_t first, int64_t at) {
    __m512i most = starts_of(row, first);
    for (int j = LANES; j < TILE; j += LANES) most = _mm512_max_epi32(most, starts_of(row, first + j));
    return at + TILE <= first && _mm512_reduce_max_epi32(most) <= at;
}

/* Bytes of scratch that a row of `length` tokens takes, forward and backward. */
int64_t train_attention_scratch(int64_t length) { return length * DIM * (2 * sizeof(float) + sizeof(Bf16)) + 64; }

/* Turn scores [keys][queries] into shares in pairs of keys, and scale earlier mixed values to the new maximum. */
static void tile_softmax(const Row *row, int64_t first, int64_t at, float *scores, Bf16 *pairs, float *mixed, float *most,
                         float *sums) {
    const Floats scale = spread(SCORE_SCALE), never = spread(NEVER);
    int whole = all_seen(row, first, at);
    for (int j = 0; j < TILE; j += LANES) {
        Floats before = _mm512_load_ps(most + j), top = before, sum = spread(0);
        for (int key = 0; key < TILE; key++) {
            Floats score = _mm512_mul_ps(_mm512_load_ps(scores + key * TILE + j), scale);
            if (!whole) score = _mm512_mask_blend_ps(seeing(row, first + j, at + key), never, score);
            _mm512_store_ps(scores + key * TILE + j, score);
            top = _mm512_max_ps(top, score);
        }
        /* A query that has seen no key yet keeps the maximum NEVER; its shares of 1 are multiplied by 0 later. */
        Floats less = power_of_two(_mm512_sub_ps(before, top));
        for (int key = 0; key < TILE; key += 2) {
            Floats a = power_of_two(_mm512_sub_ps(_mm512_load_ps(scores + key * TILE + j), top));
            Floats b = power_of_two(_mm512_sub_ps(_mm512_load_ps(scores + (key + 1) * TILE + j), top));
            sum = _mm512_add_ps(sum, _mm512_add_ps(a, b));
            weave(pairs + key * TILE + 2 * j, a, b);
        }
        _mm512_store_ps(most + j, top);
        _mm512_store_ps(sums + j, _mm512_fmadd_ps(_mm512_load_ps(sums + j), less, sum));
        for (int i = 0; i < DIM; i++)
            _mm512_store_ps(mixed + i * TILE + j, _mm512_mul_ps(_mm512_load_ps(mixed + i * TILE + j), less));
    }
}

/* Attend for one tile of queries of one head: k [tokens][..], turned values [64][length]. */
static void tile_forward(const Row *row, int64_t first, const Bf16 *q, const Bf16 *k, const Bf16 *turned, Bf16 *out,
                         int64_t out_stride, float *log_sums, int64_t log_stride) {
    float scores[TILE * TILE] ALIGNED, mixed[DIM * TILE] ALIGNED, most[TILE] ALIGNED, sums[TILE] ALIGNED, factors[TILE];
    Bf16 queries[DIM * TILE] ALIGNED, pairs[TILE * TILE] ALIGNED;
    memset(mixed, 0, sizeof mixed);
    for (int i = 0; i < TILE; i++) most[i] = NEVER, sums[i] = 0;
    pack_elements(q, row->stride, TILE, queries, TILE);
    for (int64_t at = first_seen(row, first); at <= first; at += TILE) {
        multiply(scores, k + at * row->stride, row->stride, queries, TILE, DIM / 2, 0);
        tile_softmax(row, first, at, scores, pairs, mixed, most, sums);
        multiply(mixed, turned + at, row->length, pairs, TILE, TILE / 2, 1);
    }
    for (int i = 0; i < TILE; i++) {
        factors[i] = 1 / sums[i];
        log_sums[i * log_stride] = most[i] + log2f(sums[i]);
    }
    write_tokens(mixed, factors, out, out_stride);
}

/* out [rows * length][heads * 64]; log_sums [rows * length][heads], to base 2. `length` is a multiple of 64. */
void train_attend(int64_t rows, int64_t length, int64_t heads, int64_t kv_heads, const int32_t *starts, const Bf16 *qkv,
                  Bf16 *out, float *log_sums, Bf16 *scratch) {
    int64_t group = heads / kv_heads, stride = (heads + 2 * kv_heads) * DIM;
    begin();
    for (int64_t r = 0; r < rows; r++, qkv += length * stride, out += length * heads * DIM, log_sums += length * heads) {
        Row row = {length, heads, stride, starts + r * length};
        for (int64_t head = 0; head < heads; head++) {
            const Bf16 *k = qkv + (heads + head / group) * DIM;
            if (head % group == 0) transpose(k + kv_heads * DIM, stride, length, scratch);
            for (int64_t first = 0; first < length; first += TILE)
                tile_forward(&row, first, qkv + first * stride + head * DIM, k, scratch,
                             out + (first * heads + head) * DIM, heads * DIM, log_sums + first * heads + head, heads);
        }
    }
    end();
}

/* What the tiles of one tile of queries share, backward. */
typedef struct {
    Bf16 q_elements[DIM * TILE], q_tokens[TILE * DIM], d_elements[DIM * TILE], d_tokens[TILE * DIM];
    float log_sums[TILE] ALIGNED, dots[TILE] ALIGNED; /* dots: of the output with its gradient */
} Queries;

/* Shares of tile [keys][queries] and their scores' gradients, from `scores` and `d_shares`, in both layouts. */
static void tile_shares(const Row *row, const Queries *queries, int64_t first, int64_t at, const float *scores,
                        const float *d_shares, Bf16 *shares, Bf16 *d_scores, Bf16 *d_pairs) {
    int whole = all_seen(row, first, at);
    for (int j = 0; j < TILE; j += LANES) {
        const Floats log_sums = _mm512_load_ps(queries->log_sums + j), dots = _mm512_load_ps(queries->dots + j);
        for (int key = 0; key < TILE; key += 2) {
            Floats d[2];
#pragma GCC unroll 2
            for (int k = 0; k < 2; k++) {
                int64_t place = (key + k) * TILE + j;
                Floats share = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(scores + place), spread(SCORE_SCALE), log_sums));
                if (!whole) share = _mm512_maskz_mov_ps(seeing(row, first + j, at + key + k), share);
                d[k] = _mm512_mul_ps(share, _mm512_sub_ps(_mm512_load_ps(d_shares + place), dots));
                narrowed(shares + place, share);
                narrowed(d_scores + place, d[k]);
            }
            weave(d_pairs + key * TILE + 2 * j, d[0], d[1]);
        }
    }
}

static void prepare(const Row *row, const Bf16 *q, const Bf16 *out, const Bf16 *d_out, const float *log_sums, Queries *to) {
    int64_t stride = row->heads * DIM;
    pack_elements(q, row->stride, TILE, to->q_elements, TILE);
    pack_tokens(q, row->stride, TILE, to->q_tokens);
    pack_elements(d_out, stride, TILE, to->d_elements, TILE);
    pack_tokens(d_out, stride, TILE, to->d_tokens);
    for (int i = 0; i < TILE; i++, out += stride, d_out += stride) {
        Floats dot = spread(0);
        for (int j = 0; j < DIM; j += LANES) dot = _mm512_fmadd_ps(widened(out + j), widened(d_out + j), dot);
        to->dots[i] = _mm512_reduce_add_ps(dot);
        to->log_sums[i] = log_sums[i * row->heads];
    }
}

/* One tile of queries of one head: writes its gradient, adds to the gradients of keys and values [length][64]. */
static void tile_backward(const Row *row, const Queries *queries, int64_t first, const Bf16 *k, const Bf16 *v,
                          const Bf16 *turned, float *dk, float *dv, Bf16 *dq) {
    float scores[TILE * TILE] ALIGNED, d_shares[TILE * TILE] ALIGNED;
    float d_turned[DIM * TILE] ALIGNED;
    Bf16 shares[TILE * TILE] ALIGNED, d_scores[TILE * TILE] ALIGNED, d_pairs[TILE * TILE] ALIGNED;
    memset(d_turned, 0, sizeof d_turned);
    for (int64_t at = first_seen(row, first); at <= first; at += TILE) {
        multiply(scores, k + at * row->stride, row->stride, queries->q_elements, TILE, DIM / 2, 0);
        multiply(d_shares, v + at * row->stride, row->stride, queries->d_elements, TILE, DIM / 2, 0);
        tile_shares(row, queries, first, at, scores, d_shares, shares, d_scores, d_pairs);
        multiply(dv + at * DIM, shares, TILE, queries->d_tokens, DIM, TILE / 2, 1);
        multiply(dk + at * DIM, d_scores, TILE, queries->q_tokens, DIM, TILE / 2, 1);
        multiply(d_turned, turned + at, row->length, d_pairs, TILE, TILE / 2, 1);
    }
    float factors[TILE];
    for (int i = 0; i < TILE; i++) factors[i] = HEAD_SCALE;
    write_tokens(d_turned, factors, dq, row->stride);
}

/* Gradients of qkv, as `qkv` is laid out, from the output's gradients. */
void train_attend_back(int64_t rows, int64_t length, int64_t heads, int64_t kv_heads, const int32_t *starts,
                       const Bf16 *qkv, const Bf16 *out, const Bf16 *d_out, const float *log_sums, Bf16 *d_qkv,
                       float *scratch) {
    int64_t group = heads / kv_heads, stride = (heads + 2 * kv_heads) * DIM, inner = heads * DIM;
    float *dk = scratch, *dv = dk + length * DIM;
    Bf16 *turned = (Bf16 *)(dv + length * DIM);
    begin();
    for (int64_t r = 0; r < rows; r++) {
        Row row = {length, heads, stride, starts + r * length};
        for (int64_t head = 0; head < heads; head++) {
            const Bf16 *k = qkv + (heads + head / group) * DIM, *v = k + kv_heads * DIM;
            if (head % group == 0) {
                transpose(k, stride, length, turned);
                memset(scratch, 0, 2 * length * DIM * sizeof(float));
            }
            for (int64_t first = 0; first < length; first += TILE) {
                Queries queries;
                int64_t at = first * inner + head * DIM;
                prepare(&row, qkv + first * stride + head * DIM, out + at, d_out + at, log_sums + first * heads + head,
                        &queries);
                tile_backward(&row, &queries, first, k, v, turned, dk, dv, d_qkv + first * stride + head * DIM);
            }
            if (head % group == group - 1)
                for (int64_t i = 0; i < length * DIM; i += LANES) {
                    Bf16 *to = d_qkv + i / DIM * stride + (heads + head / group) * DIM + i % DIM;
                    narrowed(to, _mm512_mul_ps(_mm512_loadu_ps(dk + i), spread(HEAD_SCALE)));
                    narrowed(to + kv_heads * DIM, _mm512_loadu_ps(dv + i));
                }
        }
        qkv += length * stride, d_qkv += length * stride, log_sums += length * heads;
        out += length * inner, d_out += length * inner;
    }
    end();
}
