/* Finds out what this CPU can run. */

#include "sets.h"
#include "tiles.h"
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { FMA = 1 << 12, OSXSAVE = 1 << 27, F16C = 1 << 29 };                                /* leaf 1, ecx */
enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30 };        /* leaf 7, ebx */
enum { AVX512VNNI = 1 << 11, AVXVNNI = 1 << 4 };                                          /* leaf 7, ecx; leaf 7.1, eax */
enum { YMM = 0x6, ZMM = 0xe6 };                                                           /* what the system keeps */
#define AVX512VL (1u << 31)

void share_avx512(Pass *p, int thread);
void share_avxvnni(Pass *p, int thread);
void share_avx2(Pass *p, int thread);

/* Whether the CPU has all of these features, and the system keeps these registers. */
static int has(unsigned first, unsigned ebx, unsigned ecx, unsigned eax, unsigned kept) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || first & ~c) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (kept & ~low || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || ebx & ~b || ecx & ~c) return 0;
    return !eax || (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && !(eax & ~a));
}

static int is_avx2_here(void) { return has(FMA | OSXSAVE | F16C, AVX2, 0, 0, YMM); }
static int is_avxvnni_here(void) { return has(FMA | OSXSAVE | F16C, AVX2, 0, AVXVNNI, YMM); }
static int is_avx512_here(void) {
    return has(FMA | OSXSAVE | F16C, AVX2 | AVX512F | AVX512DQ | AVX512BW | AVX512VL, AVX512VNNI, 0, ZMM);
}

static const Set SETS[] = {
    {"avx512", is_avx512_here, share_avx512, tiles_allowed},
    {"avxvnni", is_avxvnni_here, share_avxvnni, NULL},
    {"avx2", is_avx2_here, share_avx2, NULL},
};

#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(_WIN32)
#include <windows.h>
#endif

void share_neon(Pass *p, int thread);

static int is_neon_here(void) {
#if defined(__linux__)
    enum { DOT_PRODUCTS = 1 << 20 };
    return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0;
#elif defined(_WIN32)
    enum { DOT_PRODUCTS = 43 };
    return IsProcessorFeaturePresent(DOT_PRODUCTS) != 0;
#else
    return 1; /* every Mac with an ARM CPU */
#endif
}

static const Set SETS[] = {{"neon", is_neon_here, share_neon, NULL}};
#endif

const Set *set_of(const char *name) {
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++)
        if (!strcmp(SETS[i].name, name)) return SETS[i].is_here() ? SETS + i : NULL;
    return NULL;
}

int efim_supported(const char *set) { return set_of(set) != NULL; }
