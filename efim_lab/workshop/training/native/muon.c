/* A step of Muon for one matrix: momentum, five iterations of Newton and Schulz, and the weights (Jordan et al., 2024,
   https://kellerjordan.github.io/posts/muon). The iterations are of bf16, with sums in fp32. */

#include "products.h"
#include <math.h>
#include <string.h>

#define STEPS 5
static const float A = 3.4445f, B = -4.7750f, C = 2.0315f;

/* x[tall][narrow] and what its iterations need. */
typedef struct {
    int64_t tall, narrow;
    Bf16 *x, *next, *left, *panels, *gram, *gram_panels, *change;
    float *sums;
} Iteration;

/* Bytes of scratch for a matrix of as many elements. */
int64_t train_muon_scratch(int64_t rows, int64_t columns) {
    int64_t narrow = rows < columns ? rows : columns;
    return rows * columns * (int64_t)(4 * sizeof(Bf16) + sizeof(float)) + narrow * narrow * (int64_t)(3 * sizeof(Bf16) + sizeof(float));
}

/* buffer += (1 - momentum) * (gradient - buffer), update = gradient + momentum * (buffer - gradient): Nesterov's.
   Returns the sum of the update's squares. */
static double add_momentum(int64_t count, float momentum, const float *gradient, float *buffer, float *update) {
    double squares = 0;
    for (int64_t row = 0; row < count; row += 4096) {
        Floats sum = spread(0);
        for (int64_t i = row; i < count && i < row + 4096; i += LANES) {
            Floats g = _mm512_loadu_ps(gradient + i), old = _mm512_loadu_ps(buffer + i);
            Floats kept = old + (g - old) * (1 - momentum), value = g + (kept - g) * momentum;
            _mm512_storeu_ps(buffer + i, kept);
            _mm512_storeu_ps(update + i, value);
            sum += value * value;
        }
        squares += _mm512_reduce_add_ps(sum);
    }
    return squares;
}

/* to[size][size] in bf16 from a symmetric matrix, of which only what lies below the diagonal is given. */
static void mirror(int64_t size, const float *from, Bf16 *to) {
    for (int64_t row = 0; row < size; row += LANES)
        for (int64_t column = 0; column <= row; column += LANES) {
            Floats lines[LANES];
            for (int i = 0; i < LANES; i++) {
                lines[i] = _mm512_loadu_ps(from + (row + i) * size + column);
                narrowed(to + (row + i) * size + column, lines[i]);
            }
            if (row == column) continue;
            transpose_lanes(lines);
            for (int i = 0; i < LANES; i++) narrowed(to + (column + i) * size + row, lines[i]);
        }
}

/* Copy times a factor, transposed where `wide`: x[tall][narrow] from update[rows][columns]. */
static void load(const Iteration *it, const float *update, float factor, int wide) {
    for (int64_t top = 0; top < it->tall; top += LANES)
        for (int64_t i = 0; i < it->narrow; i += LANES) {
            const float *from = wide ? update + i * it->tall + top : update + top * it->narrow + i;
            Floats lines[LANES];
            for (int line = 0; line < LANES; line++) lines[line] = _mm512_loadu_ps(from + line * (wide ? it->tall : it->narrow));
            if (wide) transpose_lanes(lines);
            for (int line = 0; line < LANES; line++) narrowed(it->x + (top + line) * it->narrow + i, lines[line] * factor);
        }
}

/* weights = kept * weights - rate * x, transposed back where `wide`. */
static void apply(const Iteration *it, float *weights, float kept, float rate, int wide) {
    for (int64_t top = 0; top < it->tall; top += LANES)
        for (int64_t i = 0; i < it->narrow; i += LANES) {
            float *to = wide ? weights + i * it->tall + top : weights + top * it->narrow + i;
            Floats lines[LANES];
            for (int line = 0; line < LANES; line++) lines[line] = widened(it->x + (top + line) * it->narrow + i);
            if (wide) transpose_lanes(lines);
            for (int line = 0; line < LANES; line++, to += wide ? it->tall : it->narrow)
                _mm512_storeu_ps(to, _mm512_loadu_ps(to) * kept - lines[line] * rate);
        }
}

/* x = A x + x (B g + C g g), where g = x^T x. */
static void iterate(Iteration *it) {
    int64_t n = it->narrow;
    memset(it->sums, 0, n * n * sizeof(float));
    multiply_by_itself(n, it->tall, it->x, it->left, it->panels, it->sums);
    mirror(n, it->sums, it->gram);
    train_pair_tokens(n, n, it->gram, it->gram_panels);
    multiply_and_add(n, n, n, it->gram, it->gram_panels, C, B, it->gram, it->change);
    train_pair_tokens(n, n, it->change, it->gram_panels);
    multiply_and_add(it->tall, n, n, it->x, it->gram_panels, 1, A, it->x, it->next);
    Bf16 *old = it->x;
    it->x = it->next, it->next = old;
}

/* Sizes are multiples of 32. */
void train_muon(int64_t rows, int64_t columns, float momentum, float kept, float rate, const float *gradient,
                float *buffer, float *weights, char *scratch) {
    int wide = rows < columns;
    int64_t count = rows * columns, narrow = wide ? rows : columns, square = narrow * narrow;
    float *update = (float *)scratch, *sums = update + count;
    Bf16 *halves = (Bf16 *)(sums + square);
    Iteration it = {.tall = count / narrow, .narrow = narrow, .x = halves, .next = halves + count,
                    .left = halves + 2 * count, .panels = halves + 3 * count, .gram = halves + 4 * count,
                    .gram_panels = halves + 4 * count + square, .change = halves + 4 * count + 2 * square, .sums = sums};
    double norm = sqrt(add_momentum(count, momentum, gradient, buffer, update));
    load(&it, update, 1 / (norm > 1e-7 ? norm : 1e-7), wide);
    for (int step = 0; step < STEPS; step++) iterate(&it);
    apply(&it, weights, kept, rate, wide);
}
