/* Tiles (AMX): what decoder.h asks of tiles.c. */

#pragma once
#include "pass.h"

#ifdef __x86_64__
int tiles_allowed(void);
void tiles_begin(void); /* on each thread, before its first product of a pass; ended by tiles_end */
void tiles_end(void);
void tiles_multiply(const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out,
                    int64_t stride);
#else
static inline int tiles_allowed(void) { return 0; }
static inline void tiles_begin(void) {}
static inline void tiles_end(void) {}
static inline void tiles_multiply(const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out,
                                  int64_t stride) {}
#endif
