/* The hooks of capture, and what is under way of it. Capture is of the caller's own stream: a graph must not depend on
 * where its stream happened to be. On a virtual card, where that is the same for as long as its tenant lives, kernels
 * go into the graph by way of a stream of its partition; see graphs_within.c. */
#include "streams/streams.h"

/* An event recorded in a capture pulls whoever waits for it into that capture, so the wait must be on the caller's own
 * stream; such events are remembered until nothing is captured any more. */

#define CAPTURED_EVENTS 1024u
static CUevent captured[CAPTURED_EVENTS];
static uint32_t captured_count;
static pthread_mutex_t captured_lock = PTHREAD_MUTEX_INITIALIZER;

bool gs_event_is_captured(CUevent event) {
  bool found = false;
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < captured_count && !found; i++) found = captured[i] == event;
  pthread_mutex_unlock(&captured_lock);
  return found;
}

static void remember_captured(CUevent event) {
  if (gs_event_is_captured(event)) return;
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

void gs_capture_note_event(CUevent event, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!GS_PEEK(gs_active_captures))) return;
  if (gs_capturing(stream, per_thread))
    remember_captured(event);
  else
    forget_captured(event);
}

/* Captures that are under way, by the stream that each was begun on: with it and with its context one ends, and not with a
 * stream that was only drawn in. */

#define MOST_BEGUN 256u
static struct begun {
  CUstream own;
  CUcontext context;
  uint32_t thread; /* per-thread streams have one name in all */
} begun_on[MOST_BEGUN];
static uint32_t begun_count;

static void note_begun(CUstream own) {
  struct begun one = {own, gs_context_of(own), gs_this_thread()};
  pthread_mutex_lock(&captured_lock);
  if (begun_count < MOST_BEGUN) begun_on[begun_count++] = one;
  pthread_mutex_unlock(&captured_lock);
}

bool gs_capture_forget(CUstream own) {
  bool found = false;
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < begun_count && !found; i++) {
    found = begun_on[i].own == own && (own != CU_STREAM_PER_THREAD || begun_on[i].thread == gs_this_thread());
    if (found) begun_on[i] = begun_on[--begun_count];
  }
  pthread_mutex_unlock(&captured_lock);
  return found;
}

/* Events are forgotten with the last capture: no record would tell that they have become ordinary ones. */
static void over_locked(void) {
  if (!GS_SUB(gs_active_captures, 1)) captured_count = 0;
}

void gs_capture_ended(void) {
  pthread_mutex_lock(&captured_lock);
  over_locked();
  pthread_mutex_unlock(&captured_lock);
}

void gs_captures_drop_context(CUcontext context) {
  pthread_mutex_lock(&captured_lock);
  for (uint32_t i = 0; i < begun_count; i++) {
    if (begun_on[i].context != context) continue;
    begun_on[i--] = begun_on[--begun_count];
    over_locked();
  }
  pthread_mutex_unlock(&captured_lock);
}

/* Whoever looks at the streams has the table, and looks at none once something is captured: to ask whether a stream is
 * done, or to set an event, would spoil a capture of it. */
static void beginning(CUstream stream, bool per_thread) {
  if (gs_attached() && !gs_is_uncontended()) {
    gs_streams_before_capture();
    gs_detour_prepare(stream, per_thread);
  }
  pthread_mutex_lock(&gs_table_lock);
  GS_ADD(gs_active_captures, 1);
  pthread_mutex_unlock(&gs_table_lock);
}

static CUresult begun(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS)
    note_begun(gs_stream_name(stream, per_thread));
  else
    gs_capture_ended();
  return result;
}

static CUresult ended(bool was, CUstream stream, bool per_thread, CUresult result) {
  if (!was || gs_capturing(stream, per_thread)) return result; /* refused: still captured */
  gs_capture_forget(gs_stream_name(stream, per_thread));
  gs_capture_ended();
  return result;
}

/* Into what is not a new graph of the driver's own. */
static CUresult begun_elsewhere(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS && gs_attached()) gs_detour_never(stream, per_thread);
  return begun(result, stream, per_thread);
}

#define CAPTURE_ONE(note, symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                      \
    beginning(stream, per_thread);                                  \
    return note(GS_CALL(symbol) arguments, stream, per_thread);     \
  }
#define CAPTURE(note, symbol, thread, parameters, arguments) \
  CAPTURE_ONE(note, symbol, false, parameters, arguments)    \
  CAPTURE_ONE(note, thread, true, parameters, arguments)
#define TO_GRAPH                                                                                     \
  (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, \
   CUstreamCaptureMode mode)
CAPTURE(begun, cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE(begun, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
        (stream, mode))
CAPTURE(begun_elsewhere, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH,
        (stream, graph, nodes, edges, count, mode))
#define AGAIN \
  (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data)
CAPTURE(begun_elsewhere, cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz, AGAIN,
        (stream, mode, graph, callback, data))
CAPTURE(begun_elsewhere, cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz,
        (CUstream stream, CUstreamCigCaptureParams *parameters), (stream, parameters))

#define END_CAPTURE(symbol, per_thread, parameters, arguments)                       \
  GS_HOOK(symbol) parameters {                                                       \
    bool was = gs_stream_capturing(stream, per_thread);                              \
    return ended(was, stream, per_thread, GS_CALL(symbol) arguments);                \
  }
END_CAPTURE(cuStreamEndCapture, false, (CUstream stream, CUgraph *graph), (stream, graph))
END_CAPTURE(cuStreamEndCapture_ptsz, true, (CUstream stream, CUgraph *graph), (stream, graph))
END_CAPTURE(cuStreamEndCaptureToCig, false, (CUstream stream), (stream))
END_CAPTURE(cuStreamEndCaptureToCig_ptsz, true, (CUstream stream), (stream))

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

bool gs_event_made(CUevent *event, unsigned int flags) {
  if (!*event && GS_CALL(cuEventCreate)(event, flags)) *event = NULL;
  return *event;
}

bool gs_event_record(CUevent *event, unsigned int flags, CUstream stream) {
  if (!gs_event_made(event, flags)) return false;
  if (GS_CALL(cuEventRecord)(*event, stream) == CUDA_SUCCESS) return true;
  GS_CALL(cuEventDestroy_v2)(*event);
  *event = NULL;
  return false;
}
