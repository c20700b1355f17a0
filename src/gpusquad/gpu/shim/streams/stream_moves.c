/* Moving a stream's work between partitions and priorities. A stream has a twin for each that it has had; when it
 * changes, the new twin waits for an event on the old one, so the order within a stream is kept across the move. */
#include "streams/streams.h"

#include <stdlib.h>

uint32_t gs_moved_streams;

/* Names of default streams mean those of the context that is current. */
bool gs_in_own_context(const struct gs_stream *stream) {
  CUcontext current = NULL;
  return !GS_CALL(cuCtxGetCurrent)(&current) && current == stream->context->handle;
}

/* Both are of one context. */
void gs_order_before(struct gs_stream *first, CUstream behind) {
  bool is_meant = !gs_is_default(behind) || gs_in_own_context(first);
  if (is_meant && gs_event_record(&first->order_event, CU_EVENT_DISABLE_TIMING, first->current) &&
      !GS_CALL(cuStreamWaitEvent)(behind, first->order_event, 0))
    return;
  CUstreamCaptureMode before = gs_relax();
  GS_CALL(cuStreamSynchronize)(first->current);
  gs_unrelax(before);
}

void gs_move(struct gs_stream *stream, CUstream to, int32_t partition) {
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

/* As high above the program's own priority, or as high as it goes; 0: it is there already, or cannot be told. */
static int priority_above(const struct gs_stream *stream, uint32_t level) {
  int least, greatest, wanted = stream->priority - (int)level; /* lower numbers go first */
  if (GS_CALL(cuCtxGetStreamPriorityRange)(&least, &greatest)) return 0;
  if (wanted < greatest) wanted = greatest;
  return wanted < stream->priority ? wanted : 0;
}

/* Without the attributes of the program's own stream: the priority is one of them. */
static CUstream raised(struct gs_stream *stream, uint32_t level) {
  CUstream *made = &stream->raised[level - 1];
  if (*made || stream->cannot_raise >> level & 1) return *made;
  if (!stream->context->on_card || !gs_in_own_context(stream)) return NULL; /* it would be made elsewhere */
  int priority = priority_above(stream, level);
  if (!priority || GS_CALL(cuStreamCreateWithPriority)(made, CU_STREAM_NON_BLOCKING, priority)) {
    *made = NULL;
    stream->cannot_raise |= 1u << level; /* asked once: this is on the way of every launch */
  }
  return *made;
}

/* Unrestricted: the caller's own. But a per-thread stream has a name in its thread only; others must wait for it. */
static CUstream unrestricted(struct gs_stream *stream) {
  uint32_t level = gs_gate_priority_level();
  CUstream above = level ? raised(stream, level) : NULL;
  if (above) return above;
  if (stream->kind != GS_PER_THREAD || gs_gate_is_alone()) return stream->own;
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
    gs_move(stream, unrestricted(stream), GS_NO_PARTITION);
}

uint64_t gs_stream_mask(const struct gs_stream *stream) {
  return stream->partition == GS_NO_PARTITION ? 0 : gs_partition_mask((uint32_t)stream->partition);
}

bool gs_stream_leave_partition(struct gs_stream *stream) {
  if (stream->partition == GS_NO_PARTITION) return false;
  gs_move(stream, unrestricted(stream), GS_NO_PARTITION);
  return true;
}

static void tell_mask(uint64_t mask) {
  struct gs_process *process = gs_region.process;
  if (GS_PEEK(process->mask_now) == mask) return;
  GS_STORE(process->mask_now, mask);
  gs_measure_set_mask(mask);
  GS_ADD(process->moves, 1);
}

/* The partition for work of this context now. gs_partitions_lock is held for reading. */
int32_t gs_partition_now(const struct gs_context *context) {
  if (!context->partitionable) return GS_NO_PARTITION;
  uint64_t mask = gs_gate_mask();
  int32_t partition = gs_partition_of(mask);
  tell_mask(partition == GS_NO_PARTITION ? 0 : mask);
  return partition;
}

static bool own_is_named_here(const struct gs_stream *stream) {
  if (!gs_is_default(stream->own)) return true;
  if (stream->kind == GS_PER_THREAD && stream->thread != gs_this_thread()) return false;
  return gs_in_own_context(stream);
}

/* A default stream of another thread or context cannot be told to wait from here; it can be left once it is done. */
static void return_one(struct gs_stream *stream) {
  if (stream->current == stream->own || GS_LOAD(gs_active_captures)) return; /* one may have begun a moment ago */
  if (own_is_named_here(stream)) {
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
  gs_streams_visit(return_one);
  if (GS_LOAD(gs_moved_streams)) return false;
  tell_mask(0);
  return true;
}

static void leave(struct gs_stream *stream, uint32_t partition) {
  CUstream old = stream->twins[partition];
  if (stream->detour.partition == (int32_t)partition) gs_detour_drop(&stream->detour);
  if (!old) return;
  if (stream->current == old) gs_move(stream, unrestricted(stream), GS_NO_PARTITION);
  if (stream->current == old) return; /* a stream that nobody here can name */
  GS_CALL(cuStreamSynchronize)(old);
  GS_CALL(cuStreamDestroy_v2)(old);
  stream->twins[partition] = NULL;
}

void gs_streams_evict(uint32_t partition) {
  pthread_mutex_lock(&gs_table_lock);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream; stream = stream->next) {
      pthread_mutex_lock(&stream->lock);
      leave(stream, partition);
      pthread_mutex_unlock(&stream->lock);
    }
  pthread_mutex_unlock(&gs_table_lock);
}
