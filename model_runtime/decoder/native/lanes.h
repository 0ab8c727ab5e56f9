/* Lanes of numbers, as many as the registers of an instruction set hold. What differs between sets stands in the header
   that is included below, and nowhere else.

   Every sum runs over lanes in one fixed order, which depends on nothing but the place in the row. So a row gets the
   same bits in any batch, and a cached token equals a recomputed one. Sets differ in bits. */

#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define ONCE static __attribute__((noinline)) /* large, and called from several places */

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline Floats spread(float value) { return value - (Floats){0}; }

static inline Floats chosen(Ints where, Floats a, Floats b) { return (Floats)(((Ints)a & where) | ((Ints)b & ~where)); }

#include INSTRUCTIONS

/* Vectors of sums for each of ROWS rows in an inner loop; a constant, so that they stay in registers. A sum waits for
   itself, so there must be several. */
#define SPAN_OF(ROWS) ((ROWS) == 1 ? WIDEST : (ROWS) <= 3 && WIDEST / 2 > SPAN ? WIDEST / 2 : SPAN)

/* e to the x within 2 units in the last place: Cody-Waite reduction, then the series to the sixth power. */
static inline Floats exponential(Floats x) {
    x = larger(x, spread(-87.0f));
    x = chosen(x > spread(88.0f), spread(88.0f), x);
    Floats shifter = spread(12582912.0f), n = fused(x, spread(1.44269504f), shifter) - shifter;
    Floats r = fused(n, spread(-0.693359375f), x);
    r = fused(n, spread(2.12194440e-4f), r);
    Floats p = spread(1.0f / 720);
    p = fused(p, r, spread(1.0f / 120));
    p = fused(p, r, spread(1.0f / 24));
    p = fused(p, r, spread(1.0f / 6));
    p = fused(p, r, spread(0.5f));
    p = fused(p, r, spread(1.0f));
    p = fused(p, r, spread(1.0f));
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    return p * (Floats)power;
}
