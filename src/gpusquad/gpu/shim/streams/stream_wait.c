/* Waiting for streams that have moved from the caller's own. Each wait uses an event of its own: a stream may end with
 * its thread or its partition during the wait, and drivers crash when a stream is destroyed while a thread waits for
 * it. */
#include <stdlib.h>

#include "streams/stream_table.h"

#define SPARE_ROOM 16u /* for streams that move before the table is locked */

struct pending_wait {
  CUevent mark;     /* after all queued work; NULL: it could not be recorded, */
  CUstream stream; /* so the wait is for the stream itself */
};

/* The program chooses whether its threads sleep or spin in a wait. */
static unsigned int mark_flags(void) {
  unsigned int flags = 0;
  bool sleeps = !GS_CALL(cuCtxGetFlags)(&flags) && flags & CU_CTX_SCHED_BLOCKING_SYNC;
  return CU_EVENT_DISABLE_TIMING | (sleeps ? CU_EVENT_BLOCKING_SYNC : 0);
}

/* An event belongs to the context in which it is created. The stream must not end during this call. */
static struct pending_wait add_mark(const struct gs_stream *stream, CUstream current) {
  struct pending_wait made = {NULL, current};
  CUcontext own = stream->context->handle, before = NULL;
  bool elsewhere = GS_CALL(cuCtxGetCurrent)(&before) || before != own;
  if (elsewhere && GS_CALL(cuCtxSetCurrent)(own)) return made;
  gs_event_record(&made.mark, mark_flags(), current);
  if (elsewhere) GS_CALL(cuCtxSetCurrent)(before);
  return made;
}

static CUresult wait_for(const struct pending_wait *one) {
  if (!one->mark) return GS_CALL(cuStreamSynchronize)(one->stream);
  CUresult result = GS_CALL(cuEventSynchronize)(one->mark);
  GS_CALL(cuEventDestroy_v2)(one->mark);
  return result;
}

CUresult gs_stream_wait_and_release(struct gs_stream *held) {
  struct pending_wait one = add_mark(held, held->current);
  gs_stream_release(held);
  return wait_for(&one);
}

/* A stream is removed from the table before it ends. */
static uint32_t mark_moved(struct pending_wait *into, uint32_t room) {
  uint32_t count = 0;
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream && count < room; stream = stream->next) {
      CUstream current = GS_LOAD(stream->current);
      if (current != stream->own) into[count++] = add_mark(stream, current);
    }
  gs_unlock(&gs_table_lock);
  return count;
}

void gs_streams_wait(void) {
  uint32_t room = GS_LOAD(gs_moved_streams);
  if (room) room += SPARE_ROOM;
  struct pending_wait *moved = room ? malloc(room * sizeof *moved) : NULL;
  uint32_t count = moved ? mark_moved(moved, room) : 0;
  for (uint32_t i = 0; i < count; i++) wait_for(&moved[i]);
  free(moved);
}
