/* Products of bf16 in tiles of 16 rows by 64 bytes (AMX), with sums in fp32, where the CPU has them. */

#pragma once
#include "lanes.h"

#define TILE_ROWS 16
#define TILE_DEPTH 32  /* bf16 in a row of a tile */
#define TILE_BLOCK 32 /* rows and columns of a block of 2 x 2 tiles of sums */

/* Whether this CPU has tiles of bf16 and the system lets this process use them. */
int tiles_usable(void);

/* Tiles belong to a thread: begin before blocks, end after them. */
void tiles_begin(void);
INLINE void tiles_end(void) { _tile_release(); }

/* An operand of a block: the distance between its lines in bytes, and between its steps of TILE_DEPTH in elements. A line is a
   row of the left operand, a pair of rows of the right one, woven: [pair][column][2]. */
typedef struct {
    const Bf16 *at;
    int64_t line, step;
} TileOperand;

/* c[32][32] = (add ? c : 0) + a[32][depth] b[depth][32]; c's rows are `row` floats apart. */
INLINE void tile_block(float *c, int64_t row, TileOperand a, TileOperand b, int64_t depth, int add) {
    float *lower = c + TILE_ROWS * row;
    int64_t bytes = row * (int64_t)sizeof(float), below = TILE_ROWS * a.line / 2;
    if (add) {
        _tile_loadd(0, c, bytes);
        _tile_loadd(1, c + LANES, bytes);
        _tile_loadd(2, lower, bytes);
        _tile_loadd(3, lower + LANES, bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < depth; k += TILE_DEPTH, a.at += a.step, b.at += b.step) {
        _tile_loadd(4, a.at, a.line);
        _tile_loadd(6, b.at, b.line);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b.at + 2 * LANES, b.line);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a.at + below, a.line);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, bytes);
    _tile_stored(1, c + LANES, bytes);
    _tile_stored(2, lower, bytes);
    _tile_stored(3, lower + LANES, bytes);
}
