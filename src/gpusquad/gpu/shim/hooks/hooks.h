/* What the hooks offer to the other folders. */
#ifndef GPUSQUAD_HOOKS_H
#define GPUSQUAD_HOOKS_H

#include "shim.h"

/* order_hooks.c: called before memory is freed. The driver then waits for pending work, but perhaps not for work on
 * partitions. */
void gs_before_free(void);

/* lifecycle_hooks.c: a context is about to be destroyed or reset; then it was, or the driver refused. */
void gs_context_ending(CUcontext context);
void gs_context_ended(CUcontext context, bool ended);
/* Around a call that may end the primary context: the shim's threads do not use it in between. NULL: it did not end. */
void gs_context_releasing(void);
void gs_context_released(CUcontext ended);

#endif
