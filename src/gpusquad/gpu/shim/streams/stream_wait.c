/* Waiting for streams that are not the caller's own now. By events that only the waiter knows: a stream may end while
 * somebody waits for it, with its thread or its partition, and drivers do not survive that. */
#include <stdlib.h>

#include "streams/streams.h"

#define MORE_STREAMS 16u /* may have moved before the table is locked */

struct awaited {
  CUevent mark;    /* behind all that was queued; NULL: it could not be set, */
  CUstream stream; /* and the stream itself is waited for */
};

/* As the program wants its threads to wait. */
static unsigned int mark_flags(void) {
  unsigned int flags = 0;
  bool sleeps = !GS_CALL(cuCtxGetFlags)(&flags) && flags & CU_CTX_SCHED_BLOCKING_SYNC;
  return CU_EVENT_DISABLE_TIMING | (sleeps ? CU_EVENT_BLOCKING_SYNC : 0);
}

/* An event belongs to the context in which it is made. Nobody may end the stream meanwhile. */
static struct awaited mark(const struct gs_stream *stream, CUstream current) {
  struct awaited made = {NULL, current};
  CUcontext own = stream->context->handle, before = NULL;
  bool elsewhere = GS_CALL(cuCtxGetCurrent)(&before) || before != own;
  if (elsewhere && GS_CALL(cuCtxSetCurrent)(own)) return made;
  gs_event_record(&made.mark, mark_flags(), current);
  if (elsewhere) GS_CALL(cuCtxSetCurrent)(before);
  return made;
}

static CUresult await(const struct awaited *one) {
  if (!one->mark) return GS_CALL(cuStreamSynchronize)(one->stream);
  CUresult result = GS_CALL(cuEventSynchronize)(one->mark);
  GS_CALL(cuEventDestroy_v2)(one->mark);
  return result;
}

CUresult gs_stream_wait_and_release(struct gs_stream *held) {
  struct awaited one = mark(held, held->current);
  gs_stream_release(held);
  return await(&one);
}

/* Whoever ends a stream takes it out of the table before. */
static uint32_t mark_moved(struct awaited *into, uint32_t room) {
  uint32_t count = 0;
  pthread_mutex_lock(&gs_table_lock);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream && count < room; stream = stream->next) {
      CUstream current = GS_LOAD(stream->current);
      if (current != stream->own) into[count++] = mark(stream, current);
    }
  pthread_mutex_unlock(&gs_table_lock);
  return count;
}

void gs_streams_wait(void) {
  uint32_t room = GS_LOAD(gs_moved_streams);
  if (room) room += MORE_STREAMS;
  struct awaited *moved = room ? malloc(room * sizeof *moved) : NULL;
  uint32_t count = moved ? mark_moved(moved, room) : 0;
  for (uint32_t i = 0; i < count; i++) await(&moved[i]);
  free(moved);
}
