/* The decoder for ARM CPUs of 64 bits that have dot products. */

#ifdef __aarch64__
#include "target.h"
#ifdef __clang__
TARGET("dotprod")
#else
TARGET("arch=armv8.2-a+dotprod")
#pragma GCC optimize("no-schedule-insns") /* loads would be moved ahead until sums leave the registers */
#endif
#define LANES 4
#define INSTRUCTIONS "neon.h"
#define INT8_PRODUCTS "bytes.h"
#include "decoder.h"

void share_neon(Pass *p, int thread) { pass_share(p, thread); }
TARGET_END
#endif
