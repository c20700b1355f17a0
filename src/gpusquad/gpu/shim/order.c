/* The hooks of order: events, waits, callbacks, copies on the default stream, capture, and the lives of streams. None
 * of them is gated; each goes to the stream that work goes to now. */
#include <stdlib.h>

#include "gate.h"

/* The stream to use, locked in `held`; the caller's own where nothing was moved and nothing needs to be. */
static CUstream use(struct gs_stream **held, CUstream stream, bool per_thread) {
  *held = NULL;
  if (!gs_attached() || gs_quiet() || (GS_PEEK(gs_captures) && gs_capturing(stream, per_thread))) return stream;
  *held = gs_stream_of(stream, per_thread);
  return *held ? gs_stream_take(*held) : stream;
}

static CUresult used(struct gs_stream *held, CUresult result) {
  if (held) gs_stream_release(held);
  return result;
}

#define ORDERED_ONE(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                 \
    struct gs_stream *held;                                    \
    stream = use(&held, stream, per_thread);                   \
    return used(held, GS_CALL(symbol) arguments);              \
  }
#define ORDERED(symbol, thread, parameters, arguments) \
  ORDERED_ONE(symbol, false, parameters, arguments)    \
  ORDERED_ONE(thread, true, parameters, arguments)

ORDERED(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec graph, CUstream stream), (graph, stream))
ORDERED(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data),
        (stream, function, data))
ORDERED(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
        (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags), (stream, pointer, bytes, flags))
#define VALUE(symbol, thread, type)                                                                       \
  ORDERED(symbol, thread, (CUstream stream, CUdeviceptr address, type value, unsigned int flags),         \
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
        (CUstream stream, unsigned int count, void *operations, unsigned int flags), (stream, count, operations, flags))
ORDERED(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
        (CUstream stream, unsigned int count, void *operations, unsigned int flags), (stream, count, operations, flags))

/* Events. One recorded in a capture pulls whoever waits for it into that capture, so the wait must be on the caller's
 * own stream; such events are remembered until nothing is captured any more. */

#define CAPTURED_EVENTS 1024u
static CUevent captured[CAPTURED_EVENTS];
static uint32_t captured_count;
static pthread_mutex_t captured_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_captured(CUevent event) {
  bool found = false;
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < captured_count && !found; i++) found = captured[i] == event;
  pthread_mutex_unlock(&captured_lock);
  return found;
}

static void remember_captured(CUevent event) {
  if (is_captured(event)) return;
  pthread_mutex_lock(&captured_lock);
  if (captured_count < CAPTURED_EVENTS) captured[captured_count++] = event;
  pthread_mutex_unlock(&captured_lock);
}

static void forget_captured(CUevent event) {
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < captured_count; i++)
    if (captured[i] == event) captured[i--] = captured[--captured_count];
  pthread_mutex_unlock(&captured_lock);
}

static void note_record(CUevent event, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!GS_PEEK(gs_captures))) return;
  if (gs_capturing(stream, per_thread))
    remember_captured(event);
  else
    forget_captured(event);
}

#define RECORD(symbol, per_thread, parameters, arguments)      \
  GS_HOOK(symbol) parameters {                                 \
    struct gs_stream *held;                                    \
    note_record(event, stream, per_thread);                    \
    stream = use(&held, stream, per_thread);                   \
    return used(held, GS_CALL(symbol) arguments);              \
  }
RECORD(cuEventRecord, false, (CUevent event, CUstream stream), (event, stream))
RECORD(cuEventRecord_ptsz, true, (CUevent event, CUstream stream), (event, stream))
RECORD(cuEventRecordWithFlags, false, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))
RECORD(cuEventRecordWithFlags_ptsz, true, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))

#define WAIT_EVENT(symbol, per_thread)                                                      \
  GS_HOOK(symbol)(CUstream stream, CUevent event, unsigned int flags) {                     \
    struct gs_stream *held = NULL;                                                          \
    if (!GS_PEEK(gs_captures) || !is_captured(event)) stream = use(&held, stream, per_thread); \
    return used(held, GS_CALL(symbol)(stream, event, flags));                               \
  }
WAIT_EVENT(cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, true)

/* Waiting. Nothing is locked meanwhile. */

static CUstream awaited(CUstream stream, bool per_thread) {
  if (!gs_attached() || gs_quiet() || (GS_PEEK(gs_captures) && gs_capturing(stream, per_thread))) return stream;
  return gs_stream_now(stream, per_thread);
}

static CUresult synced(CUresult result) {
  if (result == CUDA_SUCCESS && gs_attached()) gs_memory_after_sync();
  return result;
}

GS_HOOK(cuStreamSynchronize)(CUstream stream) { return synced(GS_CALL(cuStreamSynchronize)(awaited(stream, false))); }
GS_HOOK(cuStreamSynchronize_ptsz)(CUstream stream) {
  return synced(GS_CALL(cuStreamSynchronize_ptsz)(awaited(stream, true)));
}
GS_HOOK(cuStreamQuery)(CUstream stream) { return GS_CALL(cuStreamQuery)(awaited(stream, false)); }
GS_HOOK(cuStreamQuery_ptsz)(CUstream stream) { return GS_CALL(cuStreamQuery_ptsz)(awaited(stream, true)); }

GS_HOOK(cuCtxSynchronize)(void) {
  if (gs_attached() && !gs_quiet() && !GS_PEEK(gs_captures)) gs_streams_wait();
  return synced(GS_CALL(cuCtxSynchronize)());
}

/* Callbacks are told the stream they were put on: the caller's, not its twin. */

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

#define ADD_CALLBACK(symbol, per_thread)                                                                 \
  GS_HOOK(symbol)(CUstream stream, CUstreamCallback function, void *data, unsigned int flags) {          \
    struct gs_stream *held;                                                                              \
    CUstream own = stream;                                                                               \
    stream = use(&held, stream, per_thread);                                                             \
    struct callback *callback = held && stream != own ? malloc(sizeof *callback) : NULL;                 \
    if (!callback) return used(held, GS_CALL(symbol)(stream, function, data, flags));                    \
    *callback = (struct callback){function, data, own};                                                  \
    CUresult result = used(held, GS_CALL(symbol)(stream, call_back, callback, flags));                   \
    if (result) free(callback);                                                                          \
    return result;                                                                                       \
  }
ADD_CALLBACK(cuStreamAddCallback, false)
ADD_CALLBACK(cuStreamAddCallback_ptsz, true)

/* Copies and memsets on the default stream. The driver does them on the caller's own, so that stream goes there first,
 * and a thread's default stream comes back at once: other threads cannot name it. */

static struct gs_stream *use_own(bool per_thread) {
  if (!gs_attached() || gs_quiet() || (GS_PEEK(gs_captures) && gs_capturing(NULL, per_thread))) return NULL;
  struct gs_stream *held = gs_stream_of(NULL, per_thread);
  if (held) gs_stream_take_own(held);
  return held;
}

static CUresult used_own(struct gs_stream *held, CUresult result) {
  if (!held) return result;
  bool comes_back = held->kind == GS_PER_THREAD;
  gs_stream_release(held);
  if (!comes_back) return result;
  gs_stream_take(held);
  gs_stream_release(held);
  return result;
}

#define DEFAULT_ONE(symbol, per_thread, parameters, arguments)   \
  GS_HOOK(symbol) parameters {                                   \
    struct gs_stream *held = use_own(per_thread);                \
    return used_own(held, GS_CALL(symbol) arguments);            \
  }
#define DEFAULT(symbol, thread, parameters, arguments) \
  DEFAULT_ONE(symbol, false, parameters, arguments)    \
  DEFAULT_ONE(thread, true, parameters, arguments)

DEFAULT(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyPeer, cuMemcpyPeer_ptds,
        (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
        (to, to_context, from, from_context, bytes))
DEFAULT(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
        (to, offset, from, bytes))
DEFAULT(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
        (to, from, offset, bytes))
DEFAULT(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, (CUarray to, size_t offset, const void *from, size_t bytes),
        (to, offset, from, bytes))
DEFAULT(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *to, CUarray from, size_t offset, size_t bytes),
        (to, from, offset, bytes))
DEFAULT(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
        (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
        (to, to_offset, from, from_offset, bytes))
DEFAULT(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
DEFAULT(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
DEFAULT(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), (copy))
DEFAULT(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *copy), (copy))
DEFAULT(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count))
DEFAULT(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr to, unsigned short value, size_t count), (to, value, count))
DEFAULT(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr to, unsigned int value, size_t count), (to, value, count))
DEFAULT(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
        (to, pitch, value, width, height))
DEFAULT(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
        (to, pitch, value, width, height))
DEFAULT(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
        (to, pitch, value, width, height))

/* Capture is of the caller's own stream: a graph must not depend on where its stream happened to be. */

static void beginning(void) {
  if (gs_attached() && !gs_quiet()) gs_streams_before_capture();
  GS_ADD(gs_captures, 1);
}

static CUresult begun(CUresult result) {
  if (result != CUDA_SUCCESS) GS_SUB(gs_captures, 1);
  return result;
}

static CUresult ended(bool was, CUstream stream, bool per_thread, CUresult result) {
  if (!was || gs_capturing(stream, per_thread)) return result; /* refused: still captured */
  if (GS_SUB(gs_captures, 1)) return result;
  pthread_mutex_lock(&captured_lock);
  captured_count = 0;
  pthread_mutex_unlock(&captured_lock);
  return result;
}

#define CAPTURE(symbol, parameters, arguments) \
  GS_HOOK(symbol) parameters {                 \
    beginning();                               \
    return begun(GS_CALL(symbol) arguments);   \
  }
#define TO_GRAPH                                                                                     \
  (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const void *edges, size_t count, \
   CUstreamCaptureMode mode)
CAPTURE(cuStreamBeginCapture, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCaptureToGraph, TO_GRAPH, (stream, graph, nodes, edges, count, mode))
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH, (stream, graph, nodes, edges, count, mode))

#define END_CAPTURE(symbol, per_thread)                                              \
  GS_HOOK(symbol)(CUstream stream, CUgraph *graph) {                                 \
    bool was = GS_LOAD(gs_captures) && gs_capturing(stream, per_thread);             \
    return ended(was, stream, per_thread, GS_CALL(symbol)(stream, graph));           \
  }
END_CAPTURE(cuStreamEndCapture, false)
END_CAPTURE(cuStreamEndCapture_ptsz, true)

/* Lives of streams. */

static CUresult made(CUresult result, unsigned int flags) {
  if (result == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING)) GS_ADD(gs_blocking, 1);
  return result;
}

GS_HOOK(cuStreamCreate)(CUstream *stream, unsigned int flags) {
  return made(GS_CALL(cuStreamCreate)(stream, flags), flags);
}
GS_HOOK(cuStreamCreateWithPriority)(CUstream *stream, unsigned int flags, int priority) {
  return made(GS_CALL(cuStreamCreateWithPriority)(stream, flags, priority), flags);
}

static bool is_blocking(CUstream stream) {
  unsigned int flags = CU_STREAM_NON_BLOCKING;
  return GS_CALL(cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING);
}

GS_HOOK(cuStreamDestroy_v2)(CUstream stream) {
  if (stream && gs_attached()) {
    if (GS_LOAD(gs_captures) && gs_capturing(stream, false)) GS_SUB(gs_captures, 1);
    if (is_blocking(stream) && GS_LOAD(gs_blocking)) GS_SUB(gs_blocking, 1);
    gs_stream_destroyed(stream);
  }
  return GS_CALL(cuStreamDestroy_v2)(stream);
}

/* Called by contexts.c. Green contexts stand on the primary one. */
void gs_context_going(CUcontext context) {
  gs_streams_wait();
  pthread_rwlock_wrlock(&gs_places);
  if (gs_streams_context_gone(context)) gs_partitions_forget();
  pthread_rwlock_unlock(&gs_places);
}
