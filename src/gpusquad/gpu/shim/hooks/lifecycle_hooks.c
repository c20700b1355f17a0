/* The hooks of stream creation and destruction, and what the end of a context means for streams. */
#include "gate/gate.h"
#include "hooks/hooks.h"

/* Streams. */

static CUresult count_created(CUresult result, unsigned int flags) {
  if (result == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING)) GS_ADD(gs_blocking_streams, 1);
  return result;
}

GS_HOOK(cuStreamCreate)(CUstream *stream, unsigned int flags) {
  return count_created(GS_CALL(cuStreamCreate)(stream, flags), flags);
}
GS_HOOK(cuStreamCreateWithPriority)(CUstream *stream, unsigned int flags, int priority) {
  return count_created(GS_CALL(cuStreamCreateWithPriority)(stream, flags, priority), flags);
}

/* Querying the flags of a captured stream would invalidate the capture. A count that is too high costs some events. */
static bool is_blocking(CUstream stream) {
  unsigned int flags = CU_STREAM_NON_BLOCKING;
  struct gs_stream *known = gs_stream_find(stream, false);
  if (known) return known->kind == GS_BLOCKING;
  if (gs_stream_capturing(stream, false) || GS_CALL(cuStreamGetFlags)(stream, &flags)) return false;
  return !(flags & CU_STREAM_NON_BLOCKING);
}

/* True: its capture ends with it. The capture counts as active until then. */
static bool before_destroy(CUstream stream) {
  if (!stream || !gs_attached()) return false;
  bool captured = GS_LOAD(gs_active_captures) && gs_capture_forget(stream);
  if (is_blocking(stream) && GS_LOAD(gs_blocking_streams)) GS_SUB(gs_blocking_streams, 1);
  gs_stream_destroyed(stream);
  return captured;
}

#define DESTROY(symbol)                        \
  GS_HOOK(symbol)(CUstream stream) {           \
    bool captured = before_destroy(stream);            \
    CUresult result = GS_CALL(symbol)(stream); \
    if (captured) gs_capture_ended();           \
    return result;                             \
  }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)

/* Contexts; called by contexts.c. Drivers refuse to reset a primary context that still has green contexts. */

static bool has_partitions(CUcontext handle) {
  for (struct gs_context *context = GS_LOAD(gs_contexts); context; context = context->next)
    if (context->handle == handle) return context->partitionable;
  return false;
}

void gs_context_ending(CUcontext context) {
  gs_yield_context_ending(context);
  gs_yield_suspend(); /* the driver waits for work in other contexts too */
  gs_streams_wait();
  gs_write_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  if (has_partitions(context)) gs_partitions_end();
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  if (gs_streams_drop_context(context)) gs_partitions_forget();
  gs_unlock(&gs_table_lock);
  gs_rw_unlock(&gs_partitions_lock);
}

void gs_context_ended(CUcontext context, bool ended) {
  if (ended) gs_captures_drop_context(context);
  gs_yield_resume();
}

/* The watcher queries events with the table locked, so it does not use the context in between. Partitions keep their
 * context alive, so a context that has ended had none. */
void gs_context_releasing(void) {
  gs_yield_suspend(); /* the last release waits for all queued work */
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
}

void gs_context_released(CUcontext ended) {
  if (ended) gs_captures_drop_context(ended);
  if (ended) gs_streams_drop_context(ended);
  if (ended) gs_yield_context_ending(ended);
  gs_unlock(&gs_table_lock);
  gs_yield_resume();
}
