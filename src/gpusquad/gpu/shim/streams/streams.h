/* What the table of streams, their moves and their turns know of each other.
 *
 * Locks, in the order they are taken: gs_partitions_lock, legacy stream, gs_table_lock, stream. */
#ifndef GPUSQUAD_STREAMS_H
#define GPUSQUAD_STREAMS_H

#include "gate/gate.h"

#define GS_NO_PARTITION (-1) /* on no partition */

/* streams.c: the table */
#define GS_BUCKETS 256u
extern struct gs_stream *gs_stream_buckets[GS_BUCKETS];
extern struct gs_context *gs_contexts;
extern pthread_mutex_t gs_table_lock;
uint32_t gs_this_thread(void);
CUstream gs_stream_name(CUstream stream, bool per_thread); /* one name for each: 0 means one of the two default streams */
bool gs_is_default(CUstream own);
struct gs_stream *gs_stream_find(CUstream own, bool may_add);
CUcontext gs_context_of(CUstream own);

/* moves.c; the stream is locked */
bool gs_in_own_context(const struct gs_stream *stream);
void gs_order_before(struct gs_stream *first, CUstream behind); /* nothing new on `behind` before what `first` has is done */
void gs_move(struct gs_stream *stream, CUstream to, int32_t partition);
void gs_move_to_partition(struct gs_stream *stream, int32_t partition);
int32_t gs_partition_now(const struct gs_context *context);

/* turns.c */
struct gs_stream *gs_legacy_for(const struct gs_stream *stream); /* that orders itself with this one, or NULL */
void gs_join_legacy(struct gs_stream *stream, struct gs_stream *legacy);

#endif
