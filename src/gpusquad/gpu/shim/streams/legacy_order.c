/* Whose turn it is. Twins are non-blocking; the legacy default stream orders itself before and after all blocking
 * streams, and that is done here with events, as soon as one of the two is not the caller's own (own streams do it by
 * themselves). */
#include "streams/streams.h"

uint32_t gs_active_captures;

static bool own_both(const struct gs_stream *one, const struct gs_stream *other) {
  return one->current == one->own && other->current == other->own;
}

/* A blocking stream begins nothing before the legacy stream's earlier work is done. Both are locked. */
static void follow_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  uint64_t serial = legacy->serial;
  if (stream->legacy_seen == serial) return;
  if (!own_both(stream, legacy)) gs_order_before(legacy, stream->current);
  stream->legacy_seen = serial;
}

/* What a stream has done goes before all later work of the legacy stream. Both are locked. A per-thread stream that is
 * on its own was not used since the legacy stream left its own, which waited for it then. */
void gs_join_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  if (stream->joined == stream->serial) return;
  bool named_here = stream->kind != GS_PER_THREAD || stream->current != stream->own;
  if (!own_both(stream, legacy) && named_here) gs_order_before(stream, legacy->current);
  stream->joined = stream->serial;
}

/* An event on a stream that is being captured would become part of the graph. */
static bool in_capture(const struct gs_stream *stream) {
  return GS_LOAD(gs_active_captures) && stream->current == stream->own && gs_capturing(stream->own, false);
}

static void join_all(struct gs_stream *legacy) {
  if (GS_LIKELY(!GS_LOAD(legacy->context->ordered))) return; /* most programs have none */
  pthread_mutex_lock(&gs_table_lock);
  for (struct gs_stream *stream = legacy->context->ordered; stream; stream = stream->ordered) {
    pthread_mutex_lock(&stream->lock);
    if (!in_capture(stream)) gs_join_legacy(stream, legacy);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&gs_table_lock);
}

/* While a blocking stream is captured nobody may touch the legacy one: who has yet to wait for it does so before. */
static void all_follow_legacy(struct gs_context *context) {
  struct gs_stream *legacy = context->legacy;
  if (!legacy) return;
  pthread_mutex_lock(&legacy->lock);
  pthread_mutex_lock(&gs_table_lock);
  for (struct gs_stream *stream = context->ordered; stream; stream = stream->ordered) {
    pthread_mutex_lock(&stream->lock);
    bool named_here = stream->kind != GS_PER_THREAD || stream->current != stream->own;
    if (named_here && !in_capture(stream)) follow_legacy(stream, legacy);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&gs_table_lock);
  pthread_mutex_unlock(&legacy->lock);
}

void gs_streams_before_capture(void) {
  CUcontext handle = NULL;
  if (GS_CALL(cuCtxGetCurrent)(&handle) || !handle) return;
  pthread_rwlock_rdlock(&gs_partitions_lock);
  for (struct gs_context *context = GS_LOAD(gs_contexts); context; context = context->next)
    if (context->handle == handle) all_follow_legacy(context);
  pthread_rwlock_unlock(&gs_partitions_lock);
}

struct gs_stream *gs_legacy_for(const struct gs_stream *stream) {
  bool ordered = stream->kind == GS_BLOCKING || stream->kind == GS_PER_THREAD;
  return ordered ? GS_LOAD(stream->context->legacy) : NULL;
}

static CUstream take(struct gs_stream *stream, bool on_own) {
  struct gs_stream *legacy = gs_legacy_for(stream);
  bool frozen = GS_LOAD(gs_active_captures); /* nothing is made or moved while a graph is being captured */
  pthread_rwlock_rdlock(&gs_partitions_lock);
  int32_t partition = frozen || on_own ? GS_NO_PARTITION : gs_partition_now(stream->context);
  if (legacy) pthread_mutex_lock(&legacy->lock);
  pthread_mutex_lock(&stream->lock);
  if (on_own)
    gs_move(stream, stream->own, GS_NO_PARTITION);
  else if (!frozen)
    gs_move_to_partition(stream, partition);
  if (legacy) {
    follow_legacy(stream, legacy);
    pthread_mutex_unlock(&legacy->lock);
  }
  if (stream->kind == GS_LEGACY) join_all(stream);
  pthread_rwlock_unlock(&gs_partitions_lock);
  stream->serial++;
  return stream->current;
}

CUstream gs_stream_acquire(struct gs_stream *stream) { return take(stream, false); }

CUstream gs_stream_acquire_own(struct gs_stream *stream) { return take(stream, true); }

void gs_stream_release(struct gs_stream *stream) { pthread_mutex_unlock(&stream->lock); }

/* Waiting for a stream moves nothing. But the legacy stream is done only when the blocking ones are. */
struct gs_stream *gs_stream_acquire_if_moved(CUstream stream, bool per_thread) {
  struct gs_stream *known = gs_stream_of(stream, per_thread);
  if (!known) return NULL;
  pthread_rwlock_rdlock(&gs_partitions_lock);
  pthread_mutex_lock(&known->lock);
  if (known->kind == GS_LEGACY) join_all(known);
  pthread_rwlock_unlock(&gs_partitions_lock);
  if (known->current != known->own) return known;
  pthread_mutex_unlock(&known->lock);
  return NULL;
}

/* Capture. */

/* The legacy stream never is; asking it is an error while a blocking one is. */
bool gs_capturing(CUstream stream, bool per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (gs_stream_name(stream, per_thread) == CU_STREAM_LEGACY) return false;
  CUresult result = GS_CALL(cuStreamIsCapturing)(gs_stream_name(stream, per_thread), &status);
  return result || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Called by memory.c. */

bool gs_stream_capturing(CUstream stream, bool per_thread) {
  return GS_LOAD(gs_active_captures) && gs_capturing(stream, per_thread);
}

CUstream gs_stream_real(CUstream stream, bool per_thread) {
  if (gs_is_uncontended() || (GS_LOAD(gs_active_captures) && gs_capturing(stream, per_thread))) return stream;
  struct gs_stream *taken = gs_stream_of(stream, per_thread);
  if (!taken) return stream;
  CUstream real = gs_stream_acquire(taken);
  gs_stream_release(taken);
  return real;
}
