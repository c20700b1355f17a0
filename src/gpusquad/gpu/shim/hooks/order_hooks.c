/* The hooks of events, waits, callbacks and other calls that take their place in a stream. None is gated; each goes to
 * the stream that work goes to now. */
#include <stdlib.h>

#include "gate/gate.h"
#include "hooks/hooks.h"
#include "memory/memory.h"

/* Returns the stream to use, locked in `held`; the caller's own, with `held` NULL, if it has not moved and need not. */
static CUstream acquire(struct gs_stream **held, CUstream stream, bool per_thread) {
  *held = NULL;
  if (!gs_attached() || gs_is_uncontended()) return stream;
  if (GS_PEEK(gs_active_captures) && gs_capturing(stream, per_thread)) {
    *held = gs_captured_stream_acquire(stream, per_thread);
    return stream;
  }
  *held = gs_stream_of(stream, per_thread);
  return *held ? gs_stream_acquire(*held) : stream;
}

static CUresult release_after(struct gs_stream *held, CUresult result) {
  if (held) gs_stream_release(held);
  return result;
}

/* A call that the driver refuses on a partition is tried once more on the caller's own stream. */
static bool retry(struct gs_stream *held, CUstream *stream) {
  if (!held || gs_stream_capturing(held->own, false)) return false;
  if (!gs_stream_leave_partition(held)) return false;
  *stream = held->current;
  return true;
}

#define GIVE(call)                                                  \
  do {                                                              \
    CUresult result = call;                                         \
    if (GS_UNLIKELY(result) && retry(held, &stream)) result = call; \
    return release_after(held, result);                             \
  } while (0)

#define ORDERED_ONE(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                 \
    struct gs_stream *held;                                    \
    stream = acquire(&held, stream, per_thread);               \
    GIVE(GS_CALL(symbol) arguments);                           \
  }
#define ORDERED(symbol, thread, parameters, arguments) \
  ORDERED_ONE(symbol, false, parameters, arguments)    \
  ORDERED_ONE(thread, true, parameters, arguments)

/* Maps the memory that the graph allocates, as its launch would. */
#define UPLOAD_GRAPH(symbol, per_thread)                             \
  static CUresult symbol##_now(CUgraphExec graph, CUstream stream) { \
    struct gs_stream *held;                                          \
    stream = acquire(&held, stream, per_thread);                     \
    GIVE(GS_CALL(symbol)(graph, stream));                            \
  }                                                                  \
  GS_HOOK(symbol)(CUgraphExec graph, CUstream stream) {              \
    return gs_run_graph(graph, stream, per_thread, symbol##_now);    \
  }
UPLOAD_GRAPH(cuGraphUpload, false)
UPLOAD_GRAPH(cuGraphUpload_ptsz, true)

ORDERED(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data),
        (stream, function, data))
ORDERED(cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz,
        (CUstream stream, CUhostFn function, void *data, unsigned int mode), (stream, function, data, mode))
ORDERED(cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, (CUarrayMapInfo * maps, unsigned int count, CUstream stream),
        (maps, count, stream))
ORDERED(cuGraphicsMapResources, cuGraphicsMapResources_ptsz,
        (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, stream))
ORDERED(cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz,
        (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, stream))
ORDERED(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *parameters,
         unsigned int count, CUstream stream),
        (semaphores, parameters, count, stream))
ORDERED(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *parameters,
         unsigned int count, CUstream stream),
        (semaphores, parameters, count, stream))
ORDERED(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
        (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags), (stream, pointer, bytes, flags))
#define VALUE(symbol, thread, type)                                                               \
  ORDERED(symbol, thread, (CUstream stream, CUdeviceptr address, type value, unsigned int flags), \
          (stream, address, value, flags))
VALUE(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, uint32_t)
VALUE(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, uint64_t)
VALUE(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, uint32_t)
VALUE(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, uint64_t)
VALUE(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, uint32_t)
VALUE(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, uint64_t)
VALUE(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, uint32_t)
VALUE(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, uint64_t)
ORDERED(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
        (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
        (stream, count, operations, flags))
ORDERED(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
        (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
        (stream, count, operations, flags))

/* Events. */

#define RECORD(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                            \
    struct gs_stream *held;                               \
    gs_capture_note_event(event, stream, per_thread);     \
    stream = acquire(&held, stream, per_thread);          \
    GIVE(GS_CALL(symbol) arguments);                      \
  }
RECORD(cuEventRecord, false, (CUevent event, CUstream stream), (event, stream))
RECORD(cuEventRecord_ptsz, true, (CUevent event, CUstream stream), (event, stream))
RECORD(cuEventRecordWithFlags, false, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))
RECORD(cuEventRecordWithFlags_ptsz, true, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))

#define WAIT_EVENT(symbol, per_thread)                                          \
  GS_HOOK(symbol)(CUstream stream, CUevent event, unsigned int flags) {         \
    struct gs_stream *held = NULL;                                              \
    if (GS_PEEK(gs_active_captures) && gs_event_is_captured(event)) {           \
      if (gs_attached()) held = gs_captured_stream_acquire(stream, per_thread); \
      return release_after(held, GS_CALL(symbol)(stream, event, flags));        \
    }                                                                           \
    stream = acquire(&held, stream, per_thread);                                \
    GIVE(GS_CALL(symbol)(stream, event, flags));                                \
  }
WAIT_EVENT(cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, true)

/* Waiting. No lock is held during a wait. */

/* The stream, locked; NULL: it is on the caller's own. */
static struct gs_stream *acquire_if_moved(CUstream stream, bool per_thread) {
  if (!gs_attached() || gs_is_uncontended()) return NULL;
  if (GS_PEEK(gs_active_captures) && gs_capturing(stream, per_thread)) return NULL;
  return gs_stream_acquire_if_moved(stream, per_thread);
}

static bool may_have_moved(void) { return gs_attached() && !gs_is_uncontended() && !GS_PEEK(gs_active_captures); }

static CUresult after_sync(CUresult result) {
  if (result || !gs_attached()) return result;
  gs_memory_after_sync();
  if (may_have_moved()) gs_flight_after_sync();
  return result;
}

#define STREAM_WAIT(sync, query, per_thread)                                                   \
  GS_HOOK(sync)(CUstream stream) {                                                             \
    struct gs_stream *held = acquire_if_moved(stream, per_thread);                             \
    return after_sync(held ? gs_stream_wait_and_release(held) : GS_CALL(sync)(stream));        \
  }                                                                                            \
  GS_HOOK(query)(CUstream stream) {                                                            \
    struct gs_stream *held = acquire_if_moved(stream, per_thread);                             \
    return held ? release_after(held, GS_CALL(query)(held->current)) : GS_CALL(query)(stream); \
  }
STREAM_WAIT(cuStreamSynchronize, cuStreamQuery, false)
STREAM_WAIT(cuStreamSynchronize_ptsz, cuStreamQuery_ptsz, true)
GS_HOOK(cuEventSynchronize)(CUevent event) { return after_sync(GS_CALL(cuEventSynchronize)(event)); }

void gs_before_free(void) {
  if (may_have_moved()) gs_streams_wait();
}

#define FREE_OF_HOST(symbol)        \
  GS_HOOK(symbol)(void *memory) {   \
    gs_before_free();               \
    return GS_CALL(symbol)(memory); \
  }
FREE_OF_HOST(cuMemFreeHost)
FREE_OF_HOST(cuMemHostUnregister)

GS_HOOK(cuCtxSynchronize)(void) {
  if (may_have_moved()) gs_streams_wait();
  return after_sync(GS_CALL(cuCtxSynchronize)());
}

GS_HOOK(cuCtxSynchronize_v2)(CUcontext context) {
  if (may_have_moved()) gs_streams_wait();
  return after_sync(GS_CALL(cuCtxSynchronize_v2)(context));
}

/* An event or a wait of a whole context covers only the caller's own streams. So all work moves back there first, and
 * later moves are ordered after it. */
GS_HOOK(cuCtxRecordEvent)(CUcontext context, CUevent event) {
  if (may_have_moved()) gs_streams_move_back();
  return GS_CALL(cuCtxRecordEvent)(context, event);
}

GS_HOOK(cuCtxWaitEvent)(CUcontext context, CUevent event) {
  if (may_have_moved()) gs_streams_move_back();
  return GS_CALL(cuCtxWaitEvent)(context, event);
}

/* A callback gets the caller's stream as its argument, not the twin. */

struct callback {
  CUstreamCallback function;
  void *data;
  CUstream stream;
};

static void call_back(CUstream stream, CUresult status, void *data) {
  struct callback callback = *(struct callback *)data;
  (void)stream;
  free(data);
  callback.function(callback.stream, status, callback.data);
}

#define ADD_CALLBACK(symbol, per_thread)                                                        \
  GS_HOOK(symbol)(CUstream stream, CUstreamCallback function, void *data, unsigned int flags) { \
    struct gs_stream *held;                                                                     \
    CUstream own = stream;                                                                      \
    stream = acquire(&held, stream, per_thread);                                                \
    struct callback *callback = held && stream != own ? malloc(sizeof *callback) : NULL;        \
    if (!callback) return release_after(held, GS_CALL(symbol)(stream, function, data, flags));  \
    *callback = (struct callback){function, data, own};                                         \
    CUresult result = release_after(held, GS_CALL(symbol)(stream, call_back, callback, flags)); \
    if (result) free(callback);                                                                 \
    return result;                                                                              \
  }
ADD_CALLBACK(cuStreamAddCallback, false)
ADD_CALLBACK(cuStreamAddCallback_ptsz, true)
