/* How streams and contexts come and go, as far as the driver is told of it by the program. */
#include "streams/streams.h"

/* Streams. */

static CUresult made(CUresult result, unsigned int flags) {
  if (result == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING)) GS_ADD(gs_blocking_streams, 1);
  return result;
}

GS_HOOK(cuStreamCreate)(CUstream *stream, unsigned int flags) {
  return made(GS_CALL(cuStreamCreate)(stream, flags), flags);
}
GS_HOOK(cuStreamCreateWithPriority)(CUstream *stream, unsigned int flags, int priority) {
  return made(GS_CALL(cuStreamCreateWithPriority)(stream, flags, priority), flags);
}

/* To ask that of a stream that is captured would spoil the capture. One too many in the count costs some events. */
static bool is_blocking(CUstream stream) {
  unsigned int flags = CU_STREAM_NON_BLOCKING;
  struct gs_stream *known = gs_stream_find(stream, false);
  if (known) return known->kind == GS_BLOCKING;
  if (gs_stream_capturing(stream, false) || GS_CALL(cuStreamGetFlags)(stream, &flags)) return false;
  return !(flags & CU_STREAM_NON_BLOCKING);
}

/* Whether its capture goes with it; that is under way until it is gone. */
static bool ending(CUstream stream) {
  if (!stream || !gs_attached()) return false;
  bool captured = GS_LOAD(gs_active_captures) && gs_capture_forget(stream);
  if (is_blocking(stream) && GS_LOAD(gs_blocking_streams)) GS_SUB(gs_blocking_streams, 1);
  gs_stream_destroyed(stream);
  return captured;
}

#define DESTROY(symbol)                        \
  GS_HOOK(symbol)(CUstream stream) {           \
    bool captured = ending(stream);            \
    CUresult result = GS_CALL(symbol)(stream); \
    if (captured) gs_capture_ended();           \
    return result;                             \
  }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)

/* Contexts; called by contexts.c. Green contexts stand on the primary one, and drivers refuse to reset it under them. */

static bool carries_partitions(CUcontext handle) {
  for (struct gs_context *context = GS_LOAD(gs_contexts); context; context = context->next)
    if (context->handle == handle) return context->partitionable;
  return false;
}

void gs_context_ending(CUcontext context) {
  gs_yield_context_ending(context);
  gs_yield_suspend(); /* the driver waits for what is queued in other contexts too */
  gs_streams_wait();
  pthread_rwlock_wrlock(&gs_partitions_lock);
  if (carries_partitions(context)) gs_partitions_end();
  pthread_mutex_lock(&gs_table_lock);
  if (gs_streams_drop_context(context)) gs_partitions_forget();
  pthread_mutex_unlock(&gs_table_lock);
  pthread_rwlock_unlock(&gs_partitions_lock);
}

void gs_context_ended(CUcontext context, bool ended) {
  if (ended) gs_captures_drop_context(context);
  gs_yield_resume();
}

/* The helper looks at events with the table locked. Partitions keep their context alive: one that ended had none. */
void gs_context_releasing(void) {
  gs_yield_suspend(); /* if it is the last, the driver waits for all that is queued */
  pthread_mutex_lock(&gs_table_lock);
}

void gs_context_released(CUcontext ended) {
  if (ended) gs_captures_drop_context(ended);
  if (ended) gs_streams_drop_context(ended);
  if (ended) gs_yield_context_ending(ended);
  pthread_mutex_unlock(&gs_table_lock);
  gs_yield_resume();
}
