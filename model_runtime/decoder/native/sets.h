/* The instruction sets that the decoder is compiled for. */

#pragma once
#include "pass.h"

typedef struct {
    const char *name;
    int (*is_here)(void);                /* whether this CPU has it, and the system keeps its registers */
    void (*share)(Pass *p, int thread);  /* a thread's share of a pass */
    int (*has_tiles)(void);              /* NULL if it never has */
} Set;

/* The set of a name, or NULL if it is not compiled for this kind of CPU, or this CPU has it not. */
const Set *set_of(const char *name);
