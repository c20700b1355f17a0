/* The hooks of capture, and of the lives of streams. Capture is of the caller's own stream: a graph must not depend on
 * where its stream happened to be. On a virtual card, where that is the same for as long as its tenant lives, kernels
 * go into the graph by way of a stream of its partition; see graphs_within.c. */
#include "streams.h"

/* An event recorded in a capture pulls whoever waits for it into that capture, so the wait must be on the caller's own
 * stream; such events are remembered until nothing is captured any more. */

#define CAPTURED_EVENTS 1024u
static CUevent captured[CAPTURED_EVENTS];
static uint32_t captured_count;
static pthread_mutex_t captured_lock = PTHREAD_MUTEX_INITIALIZER;

bool gs_is_captured(CUevent event) {
  bool found = false;
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < captured_count && !found; i++) found = captured[i] == event;
  pthread_mutex_unlock(&captured_lock);
  return found;
}

static void remember_captured(CUevent event) {
  if (gs_is_captured(event)) return;
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

void gs_note_record(CUevent event, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!GS_PEEK(gs_captures))) return;
  if (gs_capturing(stream, per_thread))
    remember_captured(event);
  else
    forget_captured(event);
}

/* Streams that a capture was begun on: with such a one it ends, and not with one that was only drawn into it. */

#define MOST_BEGUN 256u
static CUstream begun_on[MOST_BEGUN];
static uint32_t begun_count;

static void note_begun(CUstream stream) {
  pthread_mutex_lock(&captured_lock);
  if (stream && begun_count < MOST_BEGUN) begun_on[begun_count++] = stream;
  pthread_mutex_unlock(&captured_lock);
}

static bool forget_begun(CUstream stream) {
  bool found = false;
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < begun_count && !found; i++) {
    found = begun_on[i] == stream;
    if (found) begun_on[i] = begun_on[--begun_count];
  }
  pthread_mutex_unlock(&captured_lock);
  return found;
}

/* Whoever looks at the streams has the table, and looks at none once something is captured: to ask whether a stream is
 * done, or to set an event, would spoil a capture of it. */
static void beginning(CUstream stream, bool per_thread) {
  if (gs_attached() && !gs_quiet()) {
    gs_streams_before_capture();
    gs_detour_prepare(stream, per_thread);
  }
  pthread_mutex_lock(&gs_table);
  GS_ADD(gs_captures, 1);
  pthread_mutex_unlock(&gs_table);
}

static CUresult begun(CUresult result, CUstream stream) {
  if (result == CUDA_SUCCESS)
    note_begun(stream);
  else
    GS_SUB(gs_captures, 1);
  return result;
}

static CUresult ended(bool was, CUstream stream, bool per_thread, CUresult result) {
  if (!was || gs_capturing(stream, per_thread)) return result; /* refused: still captured */
  forget_begun(stream);
  if (GS_SUB(gs_captures, 1)) return result;
  pthread_mutex_lock(&captured_lock);
  captured_count = 0;
  pthread_mutex_unlock(&captured_lock);
  return result;
}

/* Into what is not a new graph of the driver's own. */
static CUresult begun_elsewhere(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS && gs_attached()) gs_detour_never(stream, per_thread);
  return begun(result, stream);
}

#define CAPTURE_ONE(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                 \
    beginning(stream, per_thread);                             \
    return begun(GS_CALL(symbol) arguments, stream);           \
  }
#define CAPTURE(symbol, thread, parameters, arguments) \
  CAPTURE_ONE(symbol, false, parameters, arguments)    \
  CAPTURE_ONE(thread, true, parameters, arguments)
#define CAPTURE_ELSEWHERE_ONE(symbol, per_thread, parameters, arguments)            \
  GS_HOOK(symbol) parameters {                                                      \
    beginning(stream, per_thread);                                                  \
    return begun_elsewhere(GS_CALL(symbol) arguments, stream, per_thread);          \
  }
#define CAPTURE_ELSEWHERE(symbol, thread, parameters, arguments) \
  CAPTURE_ELSEWHERE_ONE(symbol, false, parameters, arguments)    \
  CAPTURE_ELSEWHERE_ONE(thread, true, parameters, arguments)
#define TO_GRAPH                                                                                     \
  (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, \
   CUstreamCaptureMode mode)
CAPTURE(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
        (stream, mode))
CAPTURE_ELSEWHERE(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH,
                  (stream, graph, nodes, edges, count, mode))
#define AGAIN \
  (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data)
CAPTURE_ELSEWHERE(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz, AGAIN,
                  (stream, mode, graph, callback, data))
CAPTURE_ELSEWHERE(cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz,
                  (CUstream stream, CUstreamCigCaptureParams *parameters), (stream, parameters))

#define END_CAPTURE(symbol, per_thread, parameters, arguments)                       \
  GS_HOOK(symbol) parameters {                                                       \
    bool was = GS_LOAD(gs_captures) && gs_capturing(stream, per_thread);             \
    return ended(was, stream, per_thread, GS_CALL(symbol) arguments);                \
  }
END_CAPTURE(cuStreamEndCapture, false, (CUstream stream, CUgraph *graph), (stream, graph))
END_CAPTURE(cuStreamEndCapture_ptsz, true, (CUstream stream, CUgraph *graph), (stream, graph))
END_CAPTURE(cuStreamEndCaptureToCig, false, (CUstream stream), (stream))
END_CAPTURE(cuStreamEndCaptureToCig_ptsz, true, (CUstream stream), (stream))

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

/* To ask that of a stream that is captured would spoil the capture. One too many in the count does no harm. */
static bool is_blocking(CUstream stream) {
  unsigned int flags = CU_STREAM_NON_BLOCKING;
  struct gs_stream *known = gs_stream_named(stream, false);
  if (known) return known->kind == GS_BLOCKING;
  if (gs_stream_capturing(stream, false) || GS_CALL(cuStreamGetFlags)(stream, &flags)) return false;
  return !(flags & CU_STREAM_NON_BLOCKING);
}

static void ending(CUstream stream) {
  if (!stream || !gs_attached()) return;
  if (GS_LOAD(gs_captures) && forget_begun(stream)) GS_SUB(gs_captures, 1);
  if (is_blocking(stream) && GS_LOAD(gs_blocking)) GS_SUB(gs_blocking, 1);
  gs_stream_destroyed(stream);
}

GS_HOOK(cuStreamDestroy)(CUstream stream) {
  ending(stream);
  return GS_CALL(cuStreamDestroy)(stream);
}
GS_HOOK(cuStreamDestroy_v2)(CUstream stream) {
  ending(stream);
  return GS_CALL(cuStreamDestroy_v2)(stream);
}

CUstreamCaptureMode gs_relax(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  return GS_CALL(cuThreadExchangeStreamCaptureMode)(&mode) ? CU_STREAM_CAPTURE_MODE_RELAXED : mode;
}

void gs_unrelax(CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) GS_CALL(cuThreadExchangeStreamCaptureMode)(&mode);
}

CUresult gs_event_query(CUevent event) {
  CUstreamCaptureMode before = gs_relax();
  CUresult result = GS_CALL(cuEventQuery)(event);
  gs_unrelax(before);
  return result;
}

bool gs_event_record(CUevent *event, unsigned int flags, CUstream stream) {
  if (!*event && GS_CALL(cuEventCreate)(event, flags)) *event = NULL;
  if (!*event) return false;
  if (GS_CALL(cuEventRecord)(*event, stream) == CUDA_SUCCESS) return true;
  GS_CALL(cuEventDestroy_v2)(*event);
  *event = NULL;
  return false;
}

/* Called by contexts.c. Green contexts stand on the primary one, and drivers refuse to reset it under them. */

static bool carries_partitions(CUcontext handle) {
  for (struct gs_context *context = GS_LOAD(gs_contexts); context; context = context->next)
    if (context->handle == handle) return context->placeable;
  return false;
}

void gs_context_going(CUcontext context) {
  gs_yield_context_going(context);
  gs_yield_pass(); /* the driver waits for what is queued in other contexts too */
  gs_streams_wait();
  pthread_rwlock_wrlock(&gs_places);
  if (carries_partitions(context)) gs_partitions_end();
  pthread_mutex_lock(&gs_table);
  if (gs_streams_context_gone(context)) gs_partitions_forget();
  pthread_mutex_unlock(&gs_table);
  pthread_rwlock_unlock(&gs_places);
}

void gs_context_went(void) { gs_yield_again(); }

/* The helper looks at events with the table locked. Partitions keep their context alive: one that ended had none. */
void gs_context_releasing(void) {
  gs_yield_pass(); /* if it is the last, the driver waits for all that is queued */
  pthread_mutex_lock(&gs_table);
}

void gs_context_released(CUcontext ended) {
  if (ended) gs_streams_context_gone(ended);
  if (ended) gs_yield_context_going(ended);
  pthread_mutex_unlock(&gs_table);
  gs_yield_again();
}
