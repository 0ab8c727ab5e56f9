#include "tiles.h"
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

static int allowed = 1;

/* Go without tiles, as CPUs that have none, or with them again; for tests, while nothing else computes. */
void train_allow_tiles(int wanted) { allowed = wanted; }

int tiles_usable(void) {
    static int known = -1; /* threads that ask at once find the same */
#ifdef __linux__
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    if (known < 0) {
        int has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 22 & 1;
        known = has && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    }
#endif
    return known > 0 && allowed;
}

void tiles_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = TILE_ROWS;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* some compilers think that only its first bytes are read */
    _tile_loadconfig(&config);
}
