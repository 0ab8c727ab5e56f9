/* The decoder for AVX2 with FMA, F16C and AVX-VNNI. */

#ifdef __x86_64__
#include "target.h"
TARGET("avx2,fma,f16c,avxvnni")
#define LANES 8
#define INSTRUCTIONS "avx2.h"
#define INT8_PRODUCTS "bytes.h"
#define HAS_VNNI
#include "decoder.h"

void share_avxvnni(Pass *p, int thread) { pass_share(p, thread); }
TARGET_END
#endif
