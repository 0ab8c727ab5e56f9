/* The decoder for AVX2 with FMA and F16C. */

#ifdef __x86_64__
#include "target.h"
TARGET("avx2,fma,f16c")
#define LANES 8
#define INSTRUCTIONS "avx2.h"
#define INT8_PRODUCTS "words.h"
#include "decoder.h"

void share_avx2(Pass *p, int thread) { pass_share(p, thread); }
TARGET_END
#endif
