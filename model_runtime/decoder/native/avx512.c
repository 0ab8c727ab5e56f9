/* Compiled for AVX-512, which this CPU may lack: nothing here runs unless `efim_supported` returns true. */

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "decoder.h"

void share_avx512(Pass *p, int thread) { pass_share(p, thread); }
