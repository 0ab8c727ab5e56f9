// Every source begins with this. glibc 2.34 gave these functions new versions that do the same; by the old ones the
// library loads wherever torch's own wheels do, from glibc 2.28 on.
#if defined(__linux__) && defined(__x86_64__)
#include <features.h>
#ifdef __GLIBC__
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
#endif
#endif
