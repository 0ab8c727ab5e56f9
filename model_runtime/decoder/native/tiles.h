/* Tiles (AMX): what decoder.h asks of tiles.c. A group is eight rows. */

#pragma once
#include "pass.h"

int tiles_allowed(void);
void tiles_begin(void); /* on each thread, before its first product of a pass; ended by tiles_end */
void tiles_end(void);
void tiles_pack(const Rows *x, int64_t group, int64_t in, uint8_t *panels);
void tiles_multiply(const Matrix *m, const Rows *x, const uint8_t *panels, int64_t rows, int64_t first, int64_t last,
                    float *out, int64_t stride);
