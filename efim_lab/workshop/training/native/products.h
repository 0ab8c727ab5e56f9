/* Products that kernels of other files use; see products.c. */

#pragma once
#include "lanes.h"

void multiply_and_add(int64_t rows, int64_t columns, int64_t depth, const Bf16 *a, const Bf16 *b, float times,
                      float plus, const Bf16 *added, Bf16 *out);

/* sum[columns][columns] += x^T x over tokens, with room for both operands; only up to the panel with the diagonal. */
void multiply_by_itself(int64_t columns, int64_t tokens, const Bf16 *x, Bf16 *left, Bf16 *right, float *sum);

void train_pair_tokens(int64_t tokens, int64_t columns, const Bf16 *x, Bf16 *panels);
void train_left_tokens(int64_t tokens, int64_t columns, const Bf16 *x, Bf16 *to);
