/* What the files of this folder share and do not offer to others. */
#ifndef GPUSQUAD_STREAM_TABLE_H
#define GPUSQUAD_STREAM_TABLE_H

#include "streams/streams.h"

/* streams.c */
#define GS_BUCKETS 256u
extern struct gs_stream *gs_stream_buckets[GS_BUCKETS];
CUstream gs_stream_name(CUstream stream, bool per_thread); /* one name for each: 0 is one of the two default streams */
CUcontext gs_context_of(CUstream own);

/* stream_moves.c; the stream is locked */
void gs_order_before(struct gs_stream *first, CUstream later); /* new work on `later` waits for all work of `first` */
void gs_move(struct gs_stream *stream, CUstream to, int32_t partition);
void gs_move_to_partition(struct gs_stream *stream, int32_t partition);
int32_t gs_partition_now(const struct gs_context *context); /* gs_partitions_lock is held for reading */

/* legacy_order.c */
struct gs_stream *gs_legacy_for(const struct gs_stream *stream); /* NULL: no legacy stream orders itself with it */
void gs_join_legacy(struct gs_stream *stream, struct gs_stream *legacy); /* both are locked */

#endif
