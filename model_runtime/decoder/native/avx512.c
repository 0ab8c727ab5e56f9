/* The decoder for AVX-512 with VNNI. */

#ifdef __x86_64__
#include "target.h"
TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define LANES 16
#define INSTRUCTIONS "avx512.h"
#define INT8_PRODUCTS "bytes.h"
#include "decoder.h"

void share_avx512(Pass *p, int thread) { pass_share(p, thread); }
TARGET_END
#endif
