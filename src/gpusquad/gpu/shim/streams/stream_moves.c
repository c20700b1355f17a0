/* Moving a stream's work between partitions and priorities. A stream has a twin for each of them that it has used. On a
 * move, the new twin waits for an event on the old one, which keeps the order within the stream.
 *
 * The grant decides where work goes (gate/grant.h). Nothing here calls the gate. */
#include "streams/stream_table.h"

#include <stdlib.h>

#include "gate/grant.h"

uint32_t gs_moved_streams;

/* The handle of a default stream means the one of the current context. */
bool gs_in_own_context(const struct gs_stream *stream) {
  CUcontext current = NULL;
  return !GS_CALL(cuCtxGetCurrent)(&current) && current == stream->context->handle;
}

/* Both belong to one context. */
void gs_order_before(struct gs_stream *first, CUstream later) {
  GS_ASSERT_HELD(&first->lock);
  bool is_right_context = !gs_is_default(later) || gs_in_own_context(first);
  if (is_right_context && gs_event_record(&first->order_event, CU_EVENT_DISABLE_TIMING, first->current) &&
      !GS_CALL(cuStreamWaitEvent)(later, first->order_event, 0))
    return;
  CUstreamCaptureMode before = gs_relax();
  GS_CALL(cuStreamSynchronize)(first->current);
  gs_unrelax(before);
}

void gs_move(struct gs_stream *stream, CUstream to, int32_t partition) {
  GS_ASSERT_HELD(&stream->lock);
  if (stream->current == to) return;
  gs_order_before(stream, to);
  if (stream->current == stream->own) GS_ADD(gs_moved_streams, 1);
  if (to == stream->own) GS_SUB(gs_moved_streams, 1);
  stream->current = to;
  stream->partition = partition;
}

static CUstream twin(struct gs_stream *stream, int32_t partition) {
  CUstream *twin = &stream->twins[partition];
  if (*twin) return *twin;
  if (gs_partition_stream((uint32_t)partition, stream->priority, twin)) return *twin = NULL;
  if (!gs_is_default(stream->own)) GS_CALL(cuStreamCopyAttributes)(*twin, stream->own);
  return *twin;
}

/* `level` steps above the program's own priority, limited by the driver's range; 0: already there, or unknown. */
static int priority_above(const struct gs_stream *stream, uint32_t level) {
  int least, greatest, wanted = stream->priority - (int)level; /* lower numbers run first */
  if (GS_CALL(cuCtxGetStreamPriorityRange)(&least, &greatest)) return 0;
  if (wanted < greatest) wanted = greatest;
  return wanted < stream->priority ? wanted : 0;
}

/* The attributes of the program's own stream are not copied, because the priority is one of them. */
static CUstream raised(struct gs_stream *stream, uint32_t level) {
  CUstream *made = &stream->raised[level - 1];
  if (*made || stream->cannot_raise >> level & 1) return *made;
  if (!stream->context->on_card || !gs_in_own_context(stream)) return NULL; /* it would be created in another context */
  int priority = priority_above(stream, level);
  if (!priority || GS_CALL(cuStreamCreateWithPriority)(made, CU_STREAM_NON_BLOCKING, priority)) {
    *made = NULL;
    stream->cannot_raise |= 1u << level; /* tried once: every launch comes here */
  }
  return *made;
}

/* The caller's own stream. But only its own thread can name a per-thread stream, and other threads must be able to wait
 * for its work. */
static CUstream unrestricted_stream(struct gs_stream *stream) {
  uint32_t level = gs_grant_priority_level();
  CUstream above = level ? raised(stream, level) : NULL;
  if (above) return above;
  if (stream->kind != GS_PER_THREAD || gs_grant_is_alone()) return stream->own;
  if (!stream->default_twin &&
      GS_CALL(cuStreamCreateWithPriority)(&stream->default_twin, CU_STREAM_NON_BLOCKING, stream->priority))
    stream->default_twin = NULL;
  return stream->default_twin ? stream->default_twin : stream->own;
}

void gs_move_to_partition(struct gs_stream *stream, int32_t partition) {
  CUstream to = partition == GS_NO_PARTITION ? NULL : twin(stream, partition);
  if (to)
    gs_move(stream, to, partition);
  else
    gs_move(stream, unrestricted_stream(stream), GS_NO_PARTITION);
}

uint64_t gs_stream_mask(const struct gs_stream *stream) {
  return stream->partition == GS_NO_PARTITION ? 0 : gs_partition_mask((uint32_t)stream->partition);
}

bool gs_stream_leave_partition(struct gs_stream *stream) {
  if (stream->partition == GS_NO_PARTITION) return false;
  gs_move(stream, unrestricted_stream(stream), GS_NO_PARTITION);
  return true;
}

static void report_mask(uint64_t mask) {
  struct gs_process *process = gs_region.process;
  if (GS_PEEK(process->mask_now) == mask) return;
  GS_STORE(process->mask_now, mask);
  gs_measure_set_mask(mask);
  GS_ADD(process->moves, 1);
}

int32_t gs_partition_now(const struct gs_context *context) {
  if (!context->partitionable) return GS_NO_PARTITION;
  uint64_t mask = gs_grant_mask();
  int32_t partition = gs_partition_of(mask);
  report_mask(partition == GS_NO_PARTITION ? 0 : mask);
  return partition;
}

static bool can_name_own(const struct gs_stream *stream) {
  if (!gs_is_default(stream->own)) return true;
  if (stream->kind == GS_PER_THREAD && stream->thread != gs_this_thread()) return false;
  return gs_in_own_context(stream);
}

/* A default stream of another thread or context cannot be made to wait from here. Its twin is left once it is idle. */
static void move_back(struct gs_stream *stream) {
  if (stream->current == stream->own || GS_LOAD(gs_active_captures)) return; /* a capture may have begun a moment ago */
  if (can_name_own(stream)) {
    gs_move(stream, stream->own, GS_NO_PARTITION);
  } else if (GS_CALL(cuStreamQuery)(stream->current) == CUDA_SUCCESS) {
    stream->current = stream->own;
    stream->partition = GS_NO_PARTITION;
    GS_SUB(gs_moved_streams, 1);
  }
}

bool gs_streams_move_back(void) {
  if (!GS_LOAD(gs_moved_streams)) return true;
  if (GS_LOAD(gs_active_captures)) return false;
  gs_streams_visit(move_back);
  if (GS_LOAD(gs_moved_streams)) return false;
  report_mask(0);
  return true;
}

static void leave_partition(struct gs_stream *stream, uint32_t partition) {
  CUstream old = stream->twins[partition];
  if (stream->detour.partition == (int32_t)partition) gs_detour_drop(&stream->detour);
  if (!old) return;
  if (stream->current == old) gs_move(stream, unrestricted_stream(stream), GS_NO_PARTITION);
  if (stream->current == old) return; /* this thread cannot name the stream */
  GS_CALL(cuStreamSynchronize)(old);
  GS_CALL(cuStreamDestroy_v2)(old);
  stream->twins[partition] = NULL;
}

void gs_streams_evict(uint32_t partition) {
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream; stream = stream->next) {
      gs_stream_lock(stream);
      leave_partition(stream, partition);
      gs_stream_release(stream);
    }
  gs_unlock(&gs_table_lock);
}
