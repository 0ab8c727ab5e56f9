/* Products of int8 weights in tiles of 16 rows by 64 bytes (AMX), for passes of several rows. The sums are whole numbers, so
   they are those of products.h, and scaling is done in the same order: both compute the same bits. */

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,amx-tile,amx-int8")
#include "tiles.h"
#include "lanes.h"
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUP 8 /* rows of activations in a tile, two digits each */

/* Whether this CPU has tiles and the system lets this process use them. */
int tiles_allowed(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    int has_tiles = d >> 24 & 1, has_int8 = d >> 25 & 1;
    return has_tiles && has_int8 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
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

/* A panel is [in / 4][2 * GROUP][4]: four bytes of each digit row side by side, as a tile expects them. */
void tiles_pack(const Rows *x, int64_t group, int64_t in, uint8_t *panels) {
    const uint8_t *digits = x->digits + group * 2 * GROUP * in;
    uint8_t *panel = panels + group * 2 * GROUP * in;
    __m512i lines = _mm512_mullo_epi32(
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32((int)in));
    for (int64_t k = 0; k < in; k += 4)
        _mm512_storeu_si512(panel + 2 * GROUP * k, _mm512_i32gather_epi32(lines, digits + k, 1));
}

/* Transpose the numbers of eight weight rows and eight activation rows. */
INLINE void transpose(__m256 *v) {
    __m256 t[8], u[8];
    for (int i = 0; i < 8; i += 2)
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]), t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

/* Scale the sums [16 weight rows][GROUP][2 digits] of a tile and write them to out[row][n]. */
INLINE void scale(const Matrix *m, int64_t n, const int32_t *sums, const float *units, int64_t rows, float *out,
                  int64_t stride) {
    __m256 unit = _mm256_loadu_ps(units), digit = _mm256_set1_ps(DIGIT);
    for (int half = 0; half < 16; half += 8) {
        __m256 v[8];
        for (int i = 0; i < 8; i++) {
            __m512i pairs = _mm512_sub_epi32(_mm512_loadu_si512(sums + 16 * (half + i)),
                                             _mm512_set1_epi32(m->sums[n + half + i]));
            __m256 high = _mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(pairs));
            __m256 low = _mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(_mm512_srli_epi64(pairs, 32)));
            __m256 whole = _mm256_add_ps(_mm256_mul_ps(high, digit), low);
            v[i] = _mm256_mul_ps(_mm256_mul_ps(whole, _mm256_set1_ps(m->scales[n + half + i])), unit);
        }
        transpose(v);
        for (int64_t j = 0; j < rows; j++) _mm256_storeu_ps(out + j * stride + n + half, v[j]);
    }
}

/* The sums of 16 or 32 weight rows with one or two panels; constants, so that tiles have names. Two by two, each tile that
   is loaded is used twice. */
INLINE void block(const Matrix *m, int64_t n, const uint8_t *panels, int twice_rows, int twice_panels, int fetch,
                  int32_t *sums) {
    const int8_t *w = (const int8_t *)m->weights + n * m->in, *below = w + 16 * m->in;
    int64_t panel = 2 * GROUP * m->in;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < m->in; k += 64) {
        const uint8_t *at = panels + 2 * GROUP * k;
        for (int i = 0; fetch && i < 32; i++) __builtin_prefetch(w + (32 + i) * m->in + k, 0, 2);
        _tile_loadd(4, w + k, m->in);
        _tile_loadd(6, at, 64);
        _tile_dpbsud(0, 4, 6);
        if (twice_panels) {
            _tile_loadd(7, at + panel, 64);
            _tile_dpbsud(1, 4, 7);
        }
        if (twice_rows) {
            _tile_loadd(5, below + k, m->in);
            _tile_dpbsud(2, 5, 6);
        }
        if (twice_rows && twice_panels) _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

static void block_of(const Matrix *m, int64_t n, const uint8_t *panels, int twice_rows, int twice_panels, int fetch,
                     int32_t *sums) {
    if (twice_rows && twice_panels) block(m, n, panels, 1, 1, fetch, sums);
    else if (twice_rows) block(m, n, panels, 1, 0, fetch, sums);
    else if (twice_panels) block(m, n, panels, 0, 1, fetch, sums);
    else block(m, n, panels, 0, 0, fetch, sums);
}

void tiles_multiply(const Matrix *m, const Rows *x, const uint8_t *panels, int64_t rows, int64_t first, int64_t last,
                    float *out, int64_t stride) {
    int32_t sums[4][256];
    int64_t groups = (rows + GROUP - 1) / GROUP;
    for (int64_t n = first; n < last; n += 32)
        for (int64_t g = 0; g < groups; g += 2) {
            int tall = n + 16 < last, wide = g + 1 < groups;
            block_of(m, n, panels + g * 2 * GROUP * m->in, tall, wide, g == 0, sums[0]);
            for (int i = 0; i < 4; i++) {
                if ((i & 1 && !wide) || (i & 2 && !tall)) continue;
                int64_t row = (g + (i & 1)) * GROUP, left = rows - row < GROUP ? rows - row : GROUP;
                scale(m, n + 8 * (i & 2), sums[i], x->units + row, left, out + row * stride, stride);
            }
        }
}
