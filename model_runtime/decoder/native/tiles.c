/* Products of int8 weights in tiles of 16 rows by 64 bytes (AMX), for passes of several rows. The sums are whole numbers, so
   they equal the sums of products.h, and scaling is done in the same order: both compute the same bits. */

#ifdef __x86_64__
#include "target.h"
TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,amx-tile,amx-int8,avx512vnni")
#include "tiles.h"
#define LANES 16
#define INSTRUCTIONS "avx512.h"
#include "lanes.h"
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define GROUP 8 /* rows of activations in a tile, two digits each */

/* Whether this CPU has tiles and the system lets this process use them. */
int tiles_allowed(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    int has_tiles = d >> 24 & 1, has_int8 = d >> 25 & 1;
#ifdef __linux__
    return has_tiles && has_int8 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return 0;
#endif
}

void tiles_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* some compilers think that only its first bytes are read */
    _tile_loadconfig(&config);
}

void tiles_end(void) { _tile_release(); }

/* Sums of one or two groups of rows with 16 or 32 outputs; constants, so that tiles have names. Two by two, each tile that
   is loaded is used twice. A tile of weights is as they lie in memory, one of digits has the lines of a group. */
INLINE void block(
    const Matrix *m, int64_t n, const uint8_t *digits, int two_groups, int two_sides, int fetch, int32_t *sums) {
    const int8_t *w = (const int8_t *)m->weights + n * m->in;
    int64_t in = m->in, group = 2 * GROUP * in, side = LANES * in;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < in; k += 64) {
        for (int i = 0; fetch && i < 32; i++) /* what the next block loads: memory is slow to begin */
            __builtin_prefetch(w + (2 + i / 16) * side + LANES * k + i % 16 * 64, 0, 2);
        _tile_loadd(4, digits + k, in);
        _tile_loadd(6, w + LANES * k, 64);
        _tile_dpbusd(0, 4, 6);
        if (two_sides) {
            _tile_loadd(7, w + side + LANES * k, 64);
            _tile_dpbusd(1, 4, 7);
        }
        if (two_groups) {
            _tile_loadd(5, digits + group + k, in);
            _tile_dpbusd(2, 5, 6);
        }
        if (two_groups && two_sides) _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

static void block_of(
    const Matrix *m, int64_t n, const uint8_t *digits, int two_groups, int two_sides, int fetch, int32_t *sums) {
    if (two_groups && two_sides) block(m, n, digits, 1, 1, fetch, sums);
    else if (two_groups) block(m, n, digits, 1, 0, fetch, sums);
    else if (two_sides) block(m, n, digits, 0, 1, fetch, sums);
    else block(m, n, digits, 0, 0, fetch, sums);
}

/* Scale the sums [GROUP][2 digits][16 outputs] of a tile and write them to out[row][n]. */
INLINE void scale(
    const Matrix *m, int64_t n, const int32_t *sums, const float *units, int64_t rows, float *out, int64_t stride) {
    Ints base = *(const Ints *)(m->sums + n);
    Floats scale = *(const Floats *)((const float *)m->scales + n);
    for (int64_t j = 0; j < rows; j++) {
        Floats high = __builtin_convertvector(*(const Ints *)(sums + 2 * j * LANES) - base, Floats);
        Floats low = __builtin_convertvector(*(const Ints *)(sums + (2 * j + 1) * LANES) - base, Floats);
        *(Floats *)(out + j * stride + n) = (high * (float)DIGIT + low) * scale * units[j];
    }
}

/* The digits have room for whole groups of rows: what stands behind the last row is computed, and not written. */
void tiles_multiply(const Matrix *m, const Rows *x, int64_t rows, int64_t first, int64_t last, float *out,
                    int64_t stride) {
    int32_t sums[4][256];
    for (int64_t n = first; n < last; n += 2 * LANES)
        for (int64_t row = 0; row < rows; row += 2 * GROUP) {
            int two_sides = n + LANES < last, two_groups = row + GROUP < rows;
            block_of(m, n, x->digits + 2 * row * m->in, two_groups, two_sides, row == 0, sums[0]);
            for (int i = 0; i < 4; i++) {
                if ((i & 1 && !two_sides) || (i & 2 && !two_groups)) continue;
                int64_t from = row + (i & 2 ? GROUP : 0), left = rows - from < GROUP ? rows - from : GROUP;
                scale(m, n + (i & 1) * LANES, sums[i], x->units + from, left, out + from * stride, stride);
            }
        }
}

TARGET_END
#endif
