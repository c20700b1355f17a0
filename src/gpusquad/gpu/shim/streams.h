/* What the table of streams, their moves and their turns know of each other.
 *
 * Locks, in the order they are taken: gs_places, legacy stream, gs_table, stream. */
#ifndef GPUSQUAD_STREAMS_H
#define GPUSQUAD_STREAMS_H

#include "gate.h"

#define GS_NOWHERE (-1) /* on no partition */

/* streams.c: the table */
#define GS_BUCKETS 256u
extern struct gs_stream *gs_stream_buckets[GS_BUCKETS];
extern struct gs_context *gs_contexts;
extern pthread_mutex_t gs_table;
uint32_t gs_this_thread(void);
CUstream gs_named(CUstream stream, bool per_thread); /* one name for each: 0 means one of the two default streams */
bool gs_is_default(CUstream own);
struct gs_stream *gs_stream_named(CUstream own, bool may_add);
CUcontext gs_context_of(CUstream own);

/* moves.c; the stream is locked */
bool gs_in_own_context(const struct gs_stream *stream);
void gs_follow(struct gs_stream *first, CUstream behind); /* nothing new on `behind` before what `first` has is done */
void gs_move(struct gs_stream *stream, CUstream to, int32_t place);
void gs_go_to(struct gs_stream *stream, int32_t place);
int32_t gs_place_now(const struct gs_context *context);

/* turns.c */
struct gs_stream *gs_legacy_for(const struct gs_stream *stream); /* that orders itself with this one, or NULL */
void gs_join_legacy(struct gs_stream *stream, struct gs_stream *legacy);

#endif
