/* The hooks of stream capture, and which captures are active. The caller's own stream is captured, because a graph must
 * not depend on where its stream happened to be. On a virtual card the partition never changes, so there kernels are
 * captured through a stream of that partition; see virtual_card_graphs.c. */
#include "gate/grant.h"
#include "streams/stream_table.h"

uint32_t gs_active_captures;

/* The legacy stream is never captured, and querying it is an error while a blocking stream is. */
bool gs_capturing(CUstream stream, bool per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (gs_stream_name(stream, per_thread) == CU_STREAM_LEGACY) return false;
  CUresult result = GS_CALL(cuStreamIsCapturing)(gs_stream_name(stream, per_thread), &status);
  return result || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool gs_stream_capturing(CUstream stream, bool per_thread) {
  return GS_LOAD(gs_active_captures) && gs_capturing(stream, per_thread);
}

/* A stream that waits for an event recorded in a capture joins that capture, so the wait must be on the caller's own
 * stream. Such events are kept until no capture is active. */

#define MAX_CAPTURED_EVENTS 1024u
static CUevent captured_events[MAX_CAPTURED_EVENTS];
static uint32_t captured_event_count;
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;

bool gs_event_is_captured(CUevent event) {
  bool found = false;
  gs_lock(&capture_lock, GS_RANK_LEAF);
  for (uint32_t i = 0; i < captured_event_count && !found; i++) found = captured_events[i] == event;
  gs_unlock(&capture_lock);
  return found;
}

static void remember_captured(CUevent event) {
  if (gs_event_is_captured(event)) return;
  gs_lock(&capture_lock, GS_RANK_LEAF);
  if (captured_event_count < MAX_CAPTURED_EVENTS) captured_events[captured_event_count++] = event;
  gs_unlock(&capture_lock);
}

static void forget_captured(CUevent event) {
  gs_lock(&capture_lock, GS_RANK_LEAF);
  for (uint32_t i = 0; i < captured_event_count; i++)
    if (captured_events[i] == event) captured_events[i--] = captured_events[--captured_event_count];
  gs_unlock(&capture_lock);
}

void gs_capture_note_event(CUevent event, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!GS_PEEK(gs_active_captures))) return;
  if (gs_capturing(stream, per_thread))
    remember_captured(event);
  else
    forget_captured(event);
}

/* Active captures, by the stream on which each began. A capture ends with that stream and with its context, but not
 * with a stream that joined it. */

#define MAX_CAPTURES 256u
static struct active_capture {
  CUstream own;
  CUcontext context;
  uint32_t thread; /* per-thread streams have the same handle in all threads */
} captures[MAX_CAPTURES];
static uint32_t capture_count;

static void add_capture(CUstream own) {
  struct active_capture one = {own, gs_context_of(own), gs_this_thread()};
  gs_lock(&capture_lock, GS_RANK_LEAF);
  if (capture_count < MAX_CAPTURES) captures[capture_count++] = one;
  gs_unlock(&capture_lock);
}

bool gs_capture_forget(CUstream own) {
  bool found = false;
  gs_lock(&capture_lock, GS_RANK_LEAF);
  for (uint32_t i = 0; i < capture_count && !found; i++) {
    found = captures[i].own == own && (own != CU_STREAM_PER_THREAD || captures[i].thread == gs_this_thread());
    if (found) captures[i] = captures[--capture_count];
  }
  gs_unlock(&capture_lock);
  return found;
}

/* Captured events are forgotten with the last capture: without another record they have become ordinary events. */
static void end_locked(void) {
  if (!GS_SUB(gs_active_captures, 1)) captured_event_count = 0;
}

void gs_capture_ended(void) {
  gs_lock(&capture_lock, GS_RANK_LEAF);
  end_locked();
  gs_unlock(&capture_lock);
}

void gs_captures_drop_context(CUcontext context) {
  gs_lock(&capture_lock, GS_RANK_LEAF);
  for (uint32_t i = 0; i < capture_count; i++) {
    if (captures[i].context != context) continue;
    captures[i--] = captures[--capture_count];
    end_locked();
  }
  gs_unlock(&capture_lock);
}

/* A visit of the streams holds the table lock and skips all streams once a capture is active: a query or an event would
 * invalidate the capture. So the count changes under the table lock. */
static void before_capture(CUstream stream, bool per_thread) {
  if (gs_attached() && !gs_is_uncontended()) {
    gs_streams_before_capture();
    gs_detour_prepare(stream, per_thread);
  }
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  GS_ADD(gs_active_captures, 1);
  gs_unlock(&gs_table_lock);
}

static CUresult after_begin(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS)
    add_capture(gs_stream_name(stream, per_thread));
  else
    gs_capture_ended();
  return result;
}

static CUresult after_end(bool was, CUstream stream, bool per_thread, CUresult result) {
  if (!was || gs_capturing(stream, per_thread)) return result; /* refused: the capture is still active */
  gs_capture_forget(gs_stream_name(stream, per_thread));
  gs_capture_ended();
  return result;
}

/* For captures that do not create a new graph. */
static CUresult after_begin_elsewhere(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS && gs_attached()) gs_detour_never(stream, per_thread);
  return after_begin(result, stream, per_thread);
}

#define CAPTURE_ONE(note, symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                      \
    before_capture(stream, per_thread);                                  \
    return note(GS_CALL(symbol) arguments, stream, per_thread);     \
  }
#define CAPTURE(note, symbol, thread, parameters, arguments) \
  CAPTURE_ONE(note, symbol, false, parameters, arguments)    \
  CAPTURE_ONE(note, thread, true, parameters, arguments)
#define TO_GRAPH                                                                                     \
  (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, \
   CUstreamCaptureMode mode)
CAPTURE(after_begin, cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE(after_begin, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
        (stream, mode))
CAPTURE(after_begin_elsewhere, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH,
        (stream, graph, nodes, edges, count, mode))
#define AGAIN \
  (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data)
CAPTURE(after_begin_elsewhere, cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz, AGAIN,
        (stream, mode, graph, callback, data))
CAPTURE(after_begin_elsewhere, cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz,
        (CUstream stream, CUstreamCigCaptureParams *parameters), (stream, parameters))

#define END_CAPTURE(symbol, per_thread, parameters, arguments)                       \
  GS_HOOK(symbol) parameters {                                                       \
    bool was = gs_stream_capturing(stream, per_thread);                              \
    return after_end(was, stream, per_thread, GS_CALL(symbol) arguments);                \
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
