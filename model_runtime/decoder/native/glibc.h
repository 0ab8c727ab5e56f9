// Every source begins with this. glibc 2.34 gave these functions new versions that do the same; by the old ones the
// library loads wherever torch's own wheels do, from glibc 2.28 on.
#ifdef __linux__
#include <features.h>
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.17");
#endif
#endif
