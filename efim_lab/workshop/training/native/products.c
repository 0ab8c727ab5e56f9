/* Products of matrices, by blocks of 8 x 32 sums in registers.

   The right operand lies in panels of 32 columns: [columns / 32][groups][32][group], where a group is the 4 bytes along
   the summed dimension that the CPU multiplies at once: 2 bf16 or 4 int8. Sizes: rows are multiples of 8, columns of
   32, the summed dimension of 4. int8 operands have a scale for each row on the left (whose bytes are shifted by 128,
   since one side has no sign) and for each column on the right. */

#include "products.h"
#include "tiles.h"
#include <math.h>
#include <string.h>

#define ROWS 8
#define PANEL 32
#define SHIFT 128
#define ROWS_AT_ONCE 128 /* rows of the left operand that stay in the cache while all panels pass */
#define TOKENS_AT_ONCE 512
#define PAIRED_AT_ONCE 32
#define TILE_TOKENS 256 /* tokens of a panel of each side: both fit the nearest cache */

typedef __m512i Ints;

/* One block: a's rows are `row` bytes apart, its groups `group` bytes. */
#define BLOCK(NAME, SUMS, DOT)                                                                                        \
    INLINE void NAME(SUMS sums[ROWS][2], const char *a, int64_t row, int64_t group, const char *b, int64_t groups) {  \
        for (int64_t g = 0; g < groups; g++, a += group, b += 4 * PANEL) {                                            \
            Ints low = _mm512_loadu_si512(b), high = _mm512_loadu_si512(b + 64);                                      \
            _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++) {                                                  \
                int32_t bytes;                                                                                        \
                memcpy(&bytes, a + i * row, 4);                                                                       \
                Ints one = _mm512_set1_epi32(bytes);                                                                  \
                DOT(sums[i][0], one, low);                                                                            \
                DOT(sums[i][1], one, high);                                                                           \
            }                                                                                                         \
        }                                                                                                             \
    }
#define DOT_BF16(sum, a, b) sum = _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
/* The intrinsic makes gcc 12 copy every sum in every turn, which costs a quarter of the speed. */
#define DOT_INT8(sum, a, b) asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
BLOCK(block_bf16, Floats, DOT_BF16)
BLOCK(block_int8, Ints, DOT_INT8)

/* A product whose sums become bf16: out[rows][columns] = times * a[rows][depth] b + plus * added; `added` may be null. */
typedef struct {
    int64_t rows, columns, depth;
    const Bf16 *a, *b;
    float times, plus;
    const Bf16 *added;
    Bf16 *out;
} Product;

INLINE void finish(const Product *p, int64_t row, int64_t column, Floats value) {
    int64_t at = row * p->columns + column;
    if (p->added) value = value * p->times + widened(p->added + at) * p->plus;
    narrowed(p->out + at, value);
}

static void multiply_lanes(const Product *p, int64_t first) {
    for (int64_t top = first; top < p->rows; top += ROWS_AT_ONCE)
        for (int64_t column = 0; column < p->columns; column += PANEL)
            for (int64_t row = top; row < p->rows && row < top + ROWS_AT_ONCE; row += ROWS) {
                Floats sums[ROWS][2];
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++) sums[i][0] = sums[i][1] = spread(0);
                const char *left = (const char *)(p->a + row * p->depth), *right = (const char *)(p->b + column * p->depth);
                block_bf16(sums, left, 2 * p->depth, 4, right, p->depth / 2);
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++)
                    for (int half = 0; half < 2; half++) finish(p, row + i, column + half * LANES, sums[i][half]);
            }
}

/* The same for the rows that fill whole blocks of tiles; returns how many these are. */
static int64_t multiply_tiles(const Product *p) {
    float sums[TILE_BLOCK * TILE_BLOCK] __attribute__((aligned(64)));
    int64_t rows = p->rows / TILE_BLOCK * TILE_BLOCK;
    tiles_begin();
    for (int64_t top = 0; top < rows; top += ROWS_AT_ONCE)
        for (int64_t column = 0; column < p->columns; column += PANEL)
            for (int64_t row = top; row < rows && row < top + ROWS_AT_ONCE; row += TILE_BLOCK) {
                TileOperand left = {p->a + row * p->depth, 2 * p->depth, TILE_DEPTH};
                TileOperand right = {p->b + column * p->depth, 4 * PANEL, TILE_DEPTH * PANEL};
                tile_block(sums, TILE_BLOCK, left, right, p->depth, 0);
                for (int i = 0; i < TILE_BLOCK; i++)
                    for (int half = 0; half < 2; half++)
                        finish(p, row + i, column + half * LANES, _mm512_load_ps(sums + i * TILE_BLOCK + half * LANES));
            }
    tiles_end();
    return rows;
}

/* out[rows][columns] = times * a[rows][depth] b + plus * added, all bf16; `added` may be null. */
void multiply_and_add(int64_t rows, int64_t columns, int64_t depth, const Bf16 *a, const Bf16 *b, float times,
                      float plus, const Bf16 *added, Bf16 *out) {
    Product product = {rows, columns, depth, a, b, times, plus, added, out};
    multiply_lanes(&product, tiles_usable() ? multiply_tiles(&product) : 0);
}

/* out[rows][columns] = a[rows][depth] b, all bf16. */
void train_multiply(int64_t rows, int64_t columns, int64_t depth, const Bf16 *a, const Bf16 *b, Bf16 *out) {
    multiply_and_add(rows, columns, depth, a, b, 1, 0, 0, out);
}

/* The same from int8; `b_shifts` [columns] are the sums of b's columns times 128. */
void train_multiply_int8(int64_t rows, int64_t columns, int64_t depth, const uint8_t *a, const float *a_scales,
                         const int8_t *b, const float *b_scales, const int32_t *b_shifts, Bf16 *out) {
    for (int64_t top = 0; top < rows; top += ROWS_AT_ONCE)
        for (int64_t column = 0; column < columns; column += PANEL)
            for (int64_t row = top; row < rows && row < top + ROWS_AT_ONCE; row += ROWS) {
                Ints sums[ROWS][2], zero = _mm512_setzero_si512();
                for (int half = 0; half < 2; half++) {
                    Ints start = _mm512_sub_epi32(zero, _mm512_loadu_si512(b_shifts + column + half * LANES));
#pragma GCC unroll 8
                    for (int i = 0; i < ROWS; i++) sums[i][half] = start;
                }
                block_int8(sums, (const char *)(a + row * depth), depth, 4, (const char *)(b + column * depth), depth / 4);
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++)
                    for (int half = 0; half < 2; half++) {
                        Floats scale = _mm512_mul_ps(_mm512_loadu_ps(b_scales + column + half * LANES), spread(a_scales[row + i]));
                        narrowed(out + (row + i) * columns + column + half * LANES,
                                 _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i][half]), scale));
                    }
            }
}

/* sum[rows][columns] += a^T b, over tokens; both operands are panels of token pairs. Of a symmetric product only the
   panels of columns that reach the diagonal are computed. */
static void multiply_tokens_lanes(int64_t rows, int64_t columns, int64_t tokens, const Bf16 *a, const Bf16 *b, float *sum,
                                  int symmetric) {
    for (int64_t token = 0; token < tokens; token += TOKENS_AT_ONCE) {
        int64_t pairs = (tokens - token < TOKENS_AT_ONCE ? tokens - token : TOKENS_AT_ONCE) / 2;
        for (int64_t row = 0; row < rows; row += ROWS)
            for (int64_t column = 0; column < columns && !(symmetric && column > row); column += PANEL) {
                Floats sums[ROWS][2];
                float *to = sum + row * columns + column;
                for (int i = 0; i < ROWS; i++)
                    for (int half = 0; half < 2; half++) sums[i][half] = _mm512_loadu_ps(to + i * columns + half * LANES);
                const Bf16 *left = a + row / PANEL * PANEL * tokens + token * PANEL + row % PANEL * 2;
                const Bf16 *right = b + column * tokens + token * PANEL;
                block_bf16(sums, (const char *)left, 4, 4 * PANEL, (const char *)right, pairs);
                for (int i = 0; i < ROWS; i++)
                    for (int half = 0; half < 2; half++) _mm512_storeu_ps(to + i * columns + half * LANES, sums[i][half]);
            }
    }
}

/* The same, where train_left_tokens laid a out in tiles. */
static void multiply_tokens_tiles(int64_t rows, int64_t columns, int64_t tokens, const Bf16 *a, const Bf16 *b, float *sum,
                                  int symmetric) {
    tiles_begin();
    for (int64_t token = 0; token < tokens; token += TILE_TOKENS) {
        int64_t depth = tokens - token < TILE_TOKENS ? tokens - token : TILE_TOKENS;
        for (int64_t row = 0; row < rows; row += TILE_BLOCK)
            for (int64_t column = 0; column < columns && !(symmetric && column > row); column += PANEL) {
                TileOperand left = {a + row * tokens + token * TILE_BLOCK, 2 * TILE_DEPTH, TILE_DEPTH * TILE_BLOCK};
                TileOperand right = {b + column * tokens + token * PANEL, 4 * PANEL, TILE_DEPTH * PANEL};
                tile_block(sum + row * columns + column, columns, left, right, depth, 1);
            }
    }
    tiles_end();
}

static void multiply_tokens(int64_t rows, int64_t columns, int64_t tokens, const Bf16 *a, const Bf16 *b, float *sum,
                            int symmetric) {
    (tiles_usable() ? multiply_tokens_tiles : multiply_tokens_lanes)(rows, columns, tokens, a, b, sum, symmetric);
}

/* sum[rows][columns] += a^T b, of operands from train_left_tokens and train_pair_tokens; tokens are a multiple of 32. */
void train_multiply_tokens(int64_t rows, int64_t columns, int64_t tokens, const Bf16 *a, const Bf16 *b, float *sum) {
    multiply_tokens(rows, columns, tokens, a, b, sum, 0);
}

void multiply_by_itself(int64_t columns, int64_t tokens, const Bf16 *x, Bf16 *left, Bf16 *right, float *sum) {
    train_left_tokens(tokens, columns, x, left);
    train_pair_tokens(tokens, columns, x, right);
    multiply_tokens(columns, columns, tokens, left, right, sum, 1);
}

/* Panels of token pairs from x[tokens][columns]. */
void train_pair_tokens(int64_t tokens, int64_t columns, const Bf16 *x, Bf16 *panels) {
    const Ints low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36,
                                      4, 35, 3, 34, 2, 33, 1, 32, 0);
    const Ints high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int64_t top = 0; top < tokens; top += PAIRED_AT_ONCE)
        for (int64_t column = 0; column < columns; column += PANEL)
            for (int64_t token = top; token < tokens && token < top + PAIRED_AT_ONCE; token += 2) {
                Ints first = _mm512_loadu_si512(x + token * columns + column);
                Ints second = _mm512_loadu_si512(x + (token + 1) * columns + column);
                Bf16 *to = panels + column * tokens + token * PANEL;
                _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, low, second));
                _mm512_storeu_si512(to + PANEL, _mm512_permutex2var_epi16(first, high, second));
            }
}

/* The left operand over tokens in the form that this CPU multiplies: panels of token pairs, or tiles
   [columns / 32][tokens / 32][32 columns][32 tokens]. */
void train_left_tokens(int64_t tokens, int64_t columns, const Bf16 *x, Bf16 *to) {
    if (!tiles_usable()) {
        train_pair_tokens(tokens, columns, x, to);
        return;
    }
    for (int64_t token = 0; token < tokens; token += TILE_DEPTH)
        for (int64_t column = 0; column < columns; column += LANES) {
            Floats lines[LANES]; /* pairs of bf16, which move as one */
            for (int pair = 0; pair < LANES; pair++) {
                const Bf16 *from = x + (token + 2 * pair) * columns + column;
                Ints first = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
                Ints second = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(from + columns)));
                lines[pair] = (Floats)_mm512_or_si512(first, _mm512_slli_epi32(second, 16));
            }
            transpose_lanes(lines);
            Bf16 *tile = to + column / PANEL * PANEL * tokens + token * PANEL + column % PANEL * TILE_DEPTH;
            for (int i = 0; i < LANES; i++) _mm512_storeu_ps((float *)(tile + i * TILE_DEPTH), lines[i]);
        }
}

/* int8 with a scale for each row, shifted by 128. */
void train_quantize(int64_t rows, int64_t columns, const Bf16 *x, uint8_t *bytes, float *scales) {
    for (int64_t row = 0; row < rows; row++, x += columns, bytes += columns) {
        Floats most = spread(1e-30f);
        for (int64_t i = 0; i < columns; i += LANES) most = _mm512_max_ps(most, _mm512_abs_ps(widened(x + i)));
        float top = _mm512_reduce_max_ps(most);
        scales[row] = top / 127;
        Floats scale = spread(127 / top);
        for (int64_t i = 0; i < columns; i += LANES) {
            Ints whole = _mm512_cvtps_epi32(_mm512_mul_ps(widened(x + i), scale));
            whole = _mm512_add_epi32(whole, _mm512_set1_epi32(SHIFT));
            _mm_storeu_si128((void *)(bytes + i), _mm512_cvtepi32_epi8(whole));
        }
    }
}

/* Panels of w[depth][columns], for d w: bf16. */
void train_pack_columns(int64_t columns, int64_t depth, const float *w, Bf16 *panels) {
    for (int64_t d = 0; d < depth; d += 2)
        for (int64_t column = 0; column < columns; column += LANES) {
            Bf16 halves[2 * LANES], *to = panels + column / PANEL * PANEL * depth + d * PANEL + column % PANEL * 2;
            narrowed(halves, _mm512_loadu_ps(w + d * columns + column));
            narrowed(halves + LANES, _mm512_loadu_ps(w + (d + 1) * columns + column));
            for (int i = 0; i < LANES; i++) to[2 * i] = halves[i], to[2 * i + 1] = halves[LANES + i];
        }
}

/* Panels of w^T from w[columns][depth], for x w^T: bf16. */
void train_pack_rows(int64_t columns, int64_t depth, const float *w, Bf16 *panels) {
    for (int64_t column = 0; column < columns; column += LANES)
        for (int64_t d = 0; d < depth; d += 2 * LANES) {
            Floats lines[LANES]; /* pairs of bf16, which move as one */
            for (int i = 0; i < LANES; i++) {
                const float *from = w + (column + i) * depth + d;
                lines[i] = (Floats)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + LANES), _mm512_loadu_ps(from));
            }
            transpose_lanes(lines);
            Bf16 *to = panels + column / PANEL * PANEL * depth + d * PANEL + column % PANEL * 2;
            for (int i = 0; i < LANES; i++) _mm512_storeu_ps((float *)(to + 2 * i * PANEL), lines[i]);
        }
}

/* Panels of w^T from w[columns][depth], for x w^T: int8, with a scale and a shift for each column. */
void train_pack_rows_int8(int64_t columns, int64_t depth, const float *w, int8_t *panels, float *scales, int32_t *shifts) {
    for (int64_t column = 0; column < columns; column++) {
        const float *from = w + column * depth;
        int8_t *to = panels + column / PANEL * PANEL * depth + column % PANEL * 4;
        Floats most = spread(1e-30f);
        for (int64_t d = 0; d < depth; d += LANES) most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(from + d)));
        float top = _mm512_reduce_max_ps(most);
        Ints sum = _mm512_setzero_si512();
        for (int64_t d = 0; d < depth; d += LANES) {
            Ints whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + d), spread(127 / top)));
            int8_t bytes[LANES];
            sum = _mm512_add_epi32(sum, whole);
            _mm_storeu_si128((void *)bytes, _mm512_cvtepi32_epi8(whole));
            for (int i = 0; i < LANES; i += 4) memcpy(to + (d + i) * PANEL, bytes + i, 4);
        }
        scales[column] = top / 127;
        shifts[column] = SHIFT * _mm512_reduce_add_epi32(sum);
    }
}

/* Panels of w[depth][columns], for d w: int8, with a scale and a shift for each column. */
void train_pack_columns_int8(int64_t columns, int64_t depth, const float *w, int8_t *panels, float *scales, int32_t *shifts) {
    for (int64_t column = 0; column < columns; column += LANES) {
        Floats most = spread(1e-30f);
        for (int64_t d = 0; d < depth; d++) most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(w + d * columns + column)));
        Floats scale = _mm512_div_ps(spread(127), most);
        Ints sum = _mm512_setzero_si512();
        int8_t *to = panels + column / PANEL * PANEL * depth + column % PANEL * 4;
        for (int64_t d = 0; d < depth; d += 4) {
            Ints quads = _mm512_setzero_si512();
            for (int i = 0; i < 4; i++) {
                Ints whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(w + (d + i) * columns + column), scale));
                sum = _mm512_add_epi32(sum, whole);
                quads = _mm512_or_si512(quads, _mm512_slli_epi32(_mm512_and_si512(whole, _mm512_set1_epi32(255)), 8 * i));
            }
            _mm512_storeu_si512(to + d * PANEL, quads);
        }
        _mm512_storeu_ps(scales + column, _mm512_div_ps(most, spread(127)));
        _mm512_storeu_si512(shifts + column, _mm512_mullo_epi32(sum, _mm512_set1_epi32(SHIFT)));
    }
}
