/* The caller's streams: which stream work goes to, in which order, and on which SMs. */
#ifndef GPUSQUAD_STREAMS_H
#define GPUSQUAD_STREAMS_H

#include "locks.h"
#include "shim.h"
#include "timing/timing.h"

#define GS_PARTITIONS 8 /* kept at once; each green context costs card memory, some MiB where it was measured */
#define GS_NO_PARTITION (-1)
#define GS_BATCHES 8  /* known to be in flight on one stream */
#define GS_SAMPLES 32 /* pending on one stream */

/* Launches of a stream that are followed by one event; in_flight.c. */
struct gs_batch {
  CUevent event;
  uint64_t cost_ns;
};

enum { GS_LEGACY = 1, GS_PER_THREAD = 2, GS_BLOCKING = 3, GS_INDEPENDENT = 4 };

struct gs_context;

/* The stream by which captured kernels go to a partition; virtual_card_graphs.c. */
struct gs_detour {
  CUstream stream; /* NULL: not created yet */
  int32_t partition;
  CUevent forth, back;
  uint64_t left; /* hash of the nodes that its stream was behind when the kernel left */
};

/* A stream of the caller. Its work goes to `current`: the stream itself, its twin on a partition, or its twin with a
 * higher priority. */
struct gs_stream {
  CUstream own, current;
  struct gs_context *context;
  uint32_t kind;
  uint32_t thread; /* GS_PER_THREAD: the owner */
  int priority;
  int32_t partition;     /* index of the partition that `current` is on, or GS_NO_PARTITION */
  CUstream default_twin; /* GS_PER_THREAD while contended: other threads can name it */
  CUstream twins[GS_PARTITIONS];
  CUstream raised[GS_LEVELS]; /* on no partition, with a higher priority */
  uint32_t cannot_raise;      /* one bit for each level without such a stream */
  struct gs_detour detour;    /* used while the stream is captured */
  CUevent order_event;
  pthread_mutex_t lock; /* held while work is handed to the driver, so that a move never overtakes it */
  uint64_t serial;      /* of its last work */
  uint64_t joined;      /* blocking streams: the legacy stream waits for work up to this serial */
  uint64_t legacy_seen; /* blocking streams: serial of the legacy stream's work that this stream waits for */

  uint64_t since_yield_point_ns; /* predicted time of the work since the last point where it can pause */

  uint32_t open; /* launches since the last batch was closed */
  uint64_t open_ns;
  struct gs_batch batches[GS_BATCHES];
  uint32_t first_batch, batch_count;

  uint32_t sampling; /* GS_NO_SAMPLE..: whether the current launch is timed, as the sample after the pending ones */
  struct gs_sample samples[GS_SAMPLES];
  uint32_t first_sample, sample_count; /* pending */

  struct gs_stream *next;    /* in the table */
  struct gs_stream *ordered; /* in the context */
};

struct gs_context {
  CUcontext handle;
  bool on_card;       /* on the device that this process shares; other devices are not managed */
  bool partitionable; /* the primary context of the card: its kernels run in green contexts */
  struct gs_stream *ordered; /* streams that the legacy stream waits for */
  struct gs_stream *legacy;
  struct gs_context *next;
};

enum { GS_UNCAPTURED = 0, GS_ON_OWN_STREAM = 1, GS_ON_DETOUR = 2 };

/* A launch between gs_launch_begin and gs_launch_end. */
struct gs_ticket {
  struct gs_stream *stream; /* locked until gs_launch_end; NULL: nothing to do there */
  uint32_t captured;        /* GS_UNCAPTURED..; if it is captured, the fields below are not used */
  struct gs_kernel_info *info;
  bool timed; /* while the stream is unlocked: this launch is the timed one */
};

static inline enum gs_rank gs_stream_rank(const struct gs_stream *stream) {
  return stream->kind == GS_LEGACY ? GS_RANK_LEGACY : GS_RANK_STREAM;
}
static inline void gs_stream_lock(struct gs_stream *stream) { gs_lock(&stream->lock, gs_stream_rank(stream)); }
static inline bool gs_stream_try_lock(struct gs_stream *stream) {
  return gs_try_lock(&stream->lock, gs_stream_rank(stream));
}
static inline void gs_stream_release(struct gs_stream *stream) { gs_unlock(&stream->lock); }

/* streams.c: the table */
extern struct gs_context *gs_contexts;
extern pthread_mutex_t gs_table_lock;
extern uint32_t gs_blocking_streams; /* blocking streams that the caller created */
uint32_t gs_this_thread(void);
bool gs_is_default(CUstream own);
struct gs_stream *gs_stream_find(CUstream own, bool may_add);
struct gs_stream *gs_stream_of(CUstream stream, bool per_thread); /* NULL: not managed */
void gs_stream_destroyed(CUstream stream);
bool gs_streams_drop_context(CUcontext context); /* true: its partitions ended with it. gs_table_lock is held */
void gs_streams_forget(void);                    /* without a call to the driver */
void gs_streams_visit(void (*visit)(struct gs_stream *stream)); /* all that no other thread uses now, locked */

/* legacy_order.c: acquiring a stream moves, orders and locks it; gs_stream_release unlocks it */
CUstream gs_stream_acquire(struct gs_stream *stream);
CUstream gs_stream_acquire_own(struct gs_stream *stream); /* on the caller's own stream */
struct gs_stream *gs_stream_acquire_if_moved(CUstream stream, bool per_thread); /* NULL: it is on the caller's own */
CUstream gs_stream_real(CUstream stream, bool per_thread); /* acquires and releases; returns where its work goes now */
void gs_streams_before_capture(void);

/* stream_moves.c */
extern uint32_t gs_moved_streams; /* streams whose work does not go to the caller's own stream now */
bool gs_in_own_context(const struct gs_stream *stream);
bool gs_stream_leave_partition(struct gs_stream *stream); /* the stream is locked; false: it is on none */
bool gs_streams_move_back(void);                          /* to the caller's own streams; true: all of them */
void gs_streams_evict(uint32_t partition); /* no stream uses it afterwards. gs_partitions_lock is held for writing */

/* stream_wait.c */
CUresult gs_stream_wait_and_release(struct gs_stream *held); /* releases first, then waits */
void gs_streams_wait(void);                                  /* for all work on streams that have moved */

/* capture.c. `per_thread`: stream 0 is the calling thread's own. */
extern uint32_t gs_active_captures; /* in this process */
bool gs_capturing(CUstream stream, bool per_thread);
bool gs_stream_capturing(CUstream stream, bool per_thread); /* the same, without a driver call if nothing is captured */
bool gs_event_is_captured(CUevent event);
void gs_capture_note_event(CUevent event, CUstream stream, bool per_thread);
bool gs_capture_forget(CUstream own); /* true: a capture was begun on it. It counts until gs_capture_ended */
void gs_capture_ended(void);
void gs_captures_drop_context(CUcontext context);

/* Another thread may begin a capture at any moment, and some of our driver calls would then invalidate it. They do not
 * if the calling thread is exempt for their duration. gs_unrelax restores the mode that the program had chosen. */
CUstreamCaptureMode gs_relax(void);
void gs_unrelax(CUstreamCaptureMode mode);
CUresult gs_event_query(CUevent event);
bool gs_event_made(CUevent *event, unsigned int flags); /* creates it at first use; false: the driver refused */
/* Records an event of ours, created at first use. An event that was created in another context than the stream's is
 * destroyed here and created again next time. */
bool gs_event_record(CUevent *event, unsigned int flags, CUstream stream);

/* partitions.c */
extern pthread_rwlock_t gs_partitions_lock;
int32_t gs_partition_of(uint64_t mask); /* finds or creates; GS_NO_PARTITION: run unrestricted. Held for reading */
int32_t gs_partition_to_keep(uint64_t mask); /* finds; graphs run on it, so it stays until its context ends */
uint64_t gs_partition_mask(uint32_t partition);
uint32_t gs_partition_sms(uint32_t partition);
CUresult gs_partition_stream(uint32_t partition, int priority, CUstream *stream);
void gs_partitions_end(void); /* destroys all. gs_partitions_lock is held for writing */
void gs_partitions_forget(void);

/* virtual_card_graphs.c: graphs stay on the virtual card that they are captured on */
void gs_detour_prepare(CUstream stream, bool per_thread); /* the stream is about to be captured */
void gs_detour_never(CUstream stream, bool per_thread);   /* no detours in the capture that has begun on it */
CUstream gs_detour_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread);
CUresult gs_detour_end(struct gs_ticket *ticket, CUresult result);
struct gs_stream *gs_captured_stream_acquire(CUstream stream, bool per_thread); /* locked; NULL: no detours there */
void gs_detour_drop(struct gs_detour *detour);
typedef CUresult gs_launch_ex(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
CUresult gs_detour_launch(gs_launch_ex *launch, const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra);

#endif
