/* The only file compiled for a CPU that may not be this one: nothing here runs before `efim_supported` said so. */

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "decoder.h"

void share_avx512(Pass *p, int thread) { pass_share(p, thread); }
