/* Compiles what stands between TARGET and TARGET_END for CPUs with these features. */

#pragma once
#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifdef __clang__
#define TARGET(FEATURES) PRAGMA(clang attribute push(__attribute__((target(FEATURES))), apply_to = function))
#define TARGET_END PRAGMA(clang attribute pop)
#else
#define TARGET(FEATURES) PRAGMA(GCC target(FEATURES))
#define TARGET_END
#endif
