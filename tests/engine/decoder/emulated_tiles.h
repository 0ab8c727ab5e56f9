/* Tiles (AMX) for CPUs without them, so that tiles.c can be tested anywhere: included before it, this replaces the
   instructions by loops, as Intel's manual of the instruction set defines them. Each thread has its tiles. */

#pragma once
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static __thread uint8_t emulated_tiles[8][16][64];

static inline void emulated_load(int tile, const void *from, int64_t stride) {
    for (int i = 0; i < 16; i++) memcpy(emulated_tiles[tile][i], (const uint8_t *)from + i * stride, 64);
}

static inline void emulated_store(int tile, void *to, int64_t stride) {
    for (int i = 0; i < 16; i++) memcpy((uint8_t *)to + i * stride, emulated_tiles[tile][i], 64);
}

/* sums[i][n] += a[i][4 k + j] * b[k][4 n + j], bytes of a without sign and of b with sign */
static inline void emulated_multiply(int sums, int a, int b) {
    for (int i = 0; i < 16; i++)
        for (int n = 0; n < 16; n++) {
            int32_t sum;
            memcpy(&sum, emulated_tiles[sums][i] + 4 * n, 4);
            for (int k = 0; k < 64; k++) sum += emulated_tiles[a][i][k] * (int8_t)emulated_tiles[b][k / 4][4 * n + k % 4];
            memcpy(emulated_tiles[sums][i] + 4 * n, &sum, 4);
        }
}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#define _tile_zero(tile) memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile])
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbusd emulated_multiply
#define _tile_loadconfig(config) (void)(config)
#define _tile_release() (void)0
#define __get_cpuid_count(leaf, part, a, b, c, d) (__get_cpuid_count(leaf, part, a, b, c, d), *(d) = ~0u)
#define syscall(...) 0
