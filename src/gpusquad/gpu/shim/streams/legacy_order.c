/* Acquiring a stream for work, and the order of the legacy default stream. The legacy stream runs before and after all
 * blocking streams. The driver keeps that order between the caller's own streams. Twins are non-blocking, so if one of
 * the two has moved, events keep it. */
#include "gate/grant.h"
#include "streams/stream_table.h"

static bool are_both_own(const struct gs_stream *one, const struct gs_stream *other) {
  return one->current == one->own && other->current == other->own;
}

/* Later work of a blocking stream waits for the earlier work of the legacy stream. Both are locked. */
static void wait_for_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  uint64_t serial = legacy->serial;
  if (stream->legacy_seen == serial) return;
  if (!are_both_own(stream, legacy)) gs_order_before(legacy, stream->current);
  stream->legacy_seen = serial;
}

/* Later work of the legacy stream waits for the earlier work of a stream. A per-thread stream that is on its own stream
 * was not used since the legacy stream left its own, and the legacy stream waited for it then. */
void gs_join_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  GS_ASSERT_HELD(&stream->lock);
  GS_ASSERT_HELD(&legacy->lock);
  if (stream->joined == stream->serial) return;
  bool can_name = stream->kind != GS_PER_THREAD || stream->current != stream->own;
  if (!are_both_own(stream, legacy) && can_name) gs_order_before(stream, legacy->current);
  stream->joined = stream->serial;
}

/* An event on a captured stream would become part of the graph. */
static bool is_captured(const struct gs_stream *stream) {
  return GS_LOAD(gs_active_captures) && stream->current == stream->own && gs_capturing(stream->own, false);
}

static void join_all(struct gs_stream *legacy) {
  if (GS_LIKELY(!GS_LOAD(legacy->context->ordered))) return; /* most programs have none */
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  for (struct gs_stream *stream = legacy->context->ordered; stream; stream = stream->ordered) {
    gs_stream_lock(stream);
    if (!is_captured(stream)) gs_join_legacy(stream, legacy);
    gs_stream_release(stream);
  }
  gs_unlock(&gs_table_lock);
}

/* While a blocking stream is captured, the legacy stream must not be used. Streams that still have to wait for it do so
 * before the capture. */
static void all_wait_for_legacy(struct gs_context *context) {
  struct gs_stream *legacy = context->legacy;
  if (!legacy) return;
  gs_stream_lock(legacy);
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  for (struct gs_stream *stream = context->ordered; stream; stream = stream->ordered) {
    gs_stream_lock(stream);
    bool can_name = stream->kind != GS_PER_THREAD || stream->current != stream->own;
    if (can_name && !is_captured(stream)) wait_for_legacy(stream, legacy);
    gs_stream_release(stream);
  }
  gs_unlock(&gs_table_lock);
  gs_stream_release(legacy);
}

void gs_streams_before_capture(void) {
  CUcontext handle = NULL;
  if (GS_CALL(cuCtxGetCurrent)(&handle) || !handle) return;
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  for (struct gs_context *context = GS_LOAD(gs_contexts); context; context = context->next)
    if (context->handle == handle) all_wait_for_legacy(context);
  gs_rw_unlock(&gs_partitions_lock);
}

struct gs_stream *gs_legacy_for(const struct gs_stream *stream) {
  bool ordered = stream->kind == GS_BLOCKING || stream->kind == GS_PER_THREAD;
  return ordered ? GS_LOAD(stream->context->legacy) : NULL;
}

static CUstream acquire(struct gs_stream *stream, bool on_own) {
  struct gs_stream *legacy = gs_legacy_for(stream);
  bool capturing = GS_LOAD(gs_active_captures); /* no stream is created or moved during a capture */
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  int32_t partition = capturing || on_own ? GS_NO_PARTITION : gs_partition_now(stream->context);
  if (legacy) gs_stream_lock(legacy);
  gs_stream_lock(stream);
  if (on_own)
    gs_move(stream, stream->own, GS_NO_PARTITION);
  else if (!capturing)
    gs_move_to_partition(stream, partition);
  if (legacy) {
    wait_for_legacy(stream, legacy);
    gs_stream_release(legacy);
  }
  if (stream->kind == GS_LEGACY) join_all(stream);
  gs_rw_unlock(&gs_partitions_lock);
  stream->serial++;
  return stream->current;
}

CUstream gs_stream_acquire(struct gs_stream *stream) { return acquire(stream, false); }

CUstream gs_stream_acquire_own(struct gs_stream *stream) { return acquire(stream, true); }

/* A wait for a stream moves nothing. But the legacy stream is complete only when the blocking streams are. */
struct gs_stream *gs_stream_acquire_if_moved(CUstream stream, bool per_thread) {
  struct gs_stream *known = gs_stream_of(stream, per_thread);
  if (!known) return NULL;
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  gs_stream_lock(known);
  if (known->kind == GS_LEGACY) join_all(known);
  gs_rw_unlock(&gs_partitions_lock);
  if (known->current != known->own) return known;
  gs_stream_release(known);
  return NULL;
}

CUstream gs_stream_real(CUstream stream, bool per_thread) {
  if (gs_is_uncontended() || (GS_LOAD(gs_active_captures) && gs_capturing(stream, per_thread))) return stream;
  struct gs_stream *acquired = gs_stream_of(stream, per_thread);
  if (!acquired) return stream;
  CUstream real = gs_stream_acquire(acquired);
  gs_stream_release(acquired);
  return real;
}
