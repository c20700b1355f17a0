/* What gates, streams, partitions and measurement know of each other.
 *
 * A hook that brings work says what it is (struct gs_work) and calls gs_launch_begin, then the real driver with the stream
 * that gs_launch_begin answered, then gs_launch_end. A tenant that is alone on its card is "quiet": gs_launch_begin is then a count, a
 * lookup and one comparison with the daemon's epoch, and the stream stays the caller's own. */
#ifndef GPUSQUAD_GATE_H
#define GPUSQUAD_GATE_H

#include <pthread.h>

#include "shim.h"

enum { GS_KERNEL = 1, GS_COPY = 2, GS_GRAPH = 3 };

struct gs_work {
  uint32_t kind;
  uint32_t shared;
  const void *handle; /* function, graph, or the name of a copy */
  uint32_t grid[3], block[3];
  uint64_t bytes;
  const CUlaunchConfig *config; /* of a kernel that came with one */
  bool cooperative;             /* all of its blocks must be there at once */
};

#define GS_WIDTHS 6 /* unrestricted; on 1, 2 to 3, 4 to 7, 8 to 15, more groups */

/* What this process knows of one kernel, graph or size of copy. Rows are never taken away. What a launch reads is in
 * one cache line. */
struct gs_kernel_info {
  uint64_t key;        /* of handle and shape: valid in this process; 0: free */
  uint64_t identity;   /* of name and shape: valid in all processes */
  uint32_t ready;      /* the fields below may be read */
  uint16_t collective; /* spins until its peers run too: never held */
  uint16_t guessed;    /* nobody has timed it yet */
  uint32_t seen;
  int32_t row; /* in the tenant's table, or -1 */
  float mean_us[GS_WIDTHS];
  uint8_t samples[GS_WIDTHS]; /* no more than fit */
  uint8_t pending;            /* samples on their way */
  float var[GS_WIDTHS];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct gs_kernel_info, var) == 64, "what a launch reads is in one cache line");

#define GS_PARTITIONS 8 /* kept at once; each green context costs memory of the card, some MiB where it was measured */
#define GS_BATCHES 8    /* known to be in flight on one stream */
#define GS_SAMPLES 32   /* on their way on one stream */

struct gs_batch {
  CUevent event;
  uint64_t cost_ns;
};

/* A launch between two events that tell its time. */
struct gs_sample {
  CUevent first, last;
  struct gs_kernel_info *info;
  CUstream on;
  uint32_t width; /* of the partition that its tenant has, wherever it runs: by that its time is asked for */
};

enum { GS_LEGACY = 1, GS_PER_THREAD = 2, GS_BLOCKING = 3, GS_INDEPENDENT = 4 };

struct gs_context;

/* By which kernels that are captured go to a partition; graphs_within.c. */
struct gs_detour {
  CUstream stream; /* NULL: there is none yet */
  int32_t partition;   /* the partition that it is on */
  CUevent forth, back;
  uint64_t left; /* what its stream was behind when it went there, in one number */
};

/* A stream of the caller. Its work goes to `current`: the stream itself, its twin on a partition, or a raised one. */
struct gs_stream {
  CUstream own, current;
  struct gs_context *context;
  uint32_t kind;
  uint32_t thread; /* whose it is, for GS_PER_THREAD */
  int priority;
  int32_t partition; /* index of the partition that `current` is on; -1: none */
  CUstream default_twin; /* GS_PER_THREAD while not quiet: other threads must be able to name it */
  CUstream twins[GS_PARTITIONS];
  CUstream raised[GS_LEVELS]; /* on no partition, with a higher priority */
  uint32_t cannot_raise;       /* a bit for each level to which there is no such stream */
  struct gs_detour detour; /* while it is captured */
  CUevent order_event;
  pthread_mutex_t lock; /* held while work is being handed to the driver, so that a move never overtakes it */
  uint64_t serial;      /* of its last work */
  uint64_t joined;      /* of a blocking stream: up to here the legacy stream waits for it */
  uint64_t legacy_seen; /* of a blocking stream: up to here it waits for the legacy stream */

  uint64_t since_yield_point_ns; /* predicted, since the last place where it may be made to stand still */

  uint32_t open; /* launches since the last batch was closed */
  uint64_t open_ns;
  struct gs_batch batches[GS_BATCHES];
  uint32_t first_batch, batch_count;

  uint32_t sampling; /* GS_NO_SAMPLE..: whether this launch is timed, as the sample behind those on their way */
  struct gs_sample samples[GS_SAMPLES];
  uint32_t first_sample, sample_count; /* on their way */

  struct gs_stream *next;    /* in the table */
  struct gs_stream *ordered; /* in the context */
};

struct gs_context {
  CUcontext handle;
  bool on_card;   /* of the device that this process shares; others are left alone */
  bool partitionable; /* the primary context of the card: green contexts take its kernels */
  struct gs_stream *ordered; /* its streams that the legacy stream waits for */
  struct gs_stream *legacy;
  struct gs_context *next;
};

enum { GS_UNCAPTURED = 0, GS_ON_OWN_STREAM = 1, GS_ON_DETOUR = 2 };

struct gs_ticket {
  struct gs_stream *stream; /* locked until gs_launch_end; NULL: nothing to do there */
  uint32_t captured; /* GS_UNCAPTURED..: whether that stream is. If so, nothing below is of use */
  struct gs_kernel_info *info;
  bool timed; /* while its stream is let go of: this work is the one that is timed there */
};

uint64_t gs_stream_mask(const struct gs_stream *stream);  /* of the partition it is on; 0: of none */
bool gs_stream_leave_partition(struct gs_stream *stream); /* the stream is locked; false: it is on none */

void gs_sample_moved(struct gs_stream *stream); /* what is timed goes to another stream than it was begun for */

/* graphs_within.c: graphs stay on the virtual card that they are captured on */
void gs_detour_prepare(CUstream stream, bool per_thread); /* it is about to be captured */
void gs_detour_never(CUstream stream, bool per_thread);   /* nor for what is drawn into its capture */
CUstream gs_detour_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread);
CUresult gs_detour_end(struct gs_ticket *ticket, CUresult result);
struct gs_stream *gs_captured_stream_acquire(CUstream stream, bool per_thread); /* locked, if what is captured may take detours */
void gs_detour_drop(struct gs_detour *detour);
typedef CUresult gs_launch_ex(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
CUresult gs_detour_launch(gs_launch_ex *launch, const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra);

/* gate.c */
CUstream gs_launch_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread);
CUresult gs_launch_finish(struct gs_ticket *ticket, CUresult result);
/* The driver refused: whether it shall be asked once more, on another stream. */
static inline bool gs_launch_retry(struct gs_ticket *ticket, CUstream *stream) {
  if (!ticket->stream || ticket->captured) return false; /* a refusal spoils a capture */
  if (!gs_stream_leave_partition(ticket->stream)) return false;
  gs_sample_moved(ticket->stream);
  *stream = ticket->stream->current;
  return true;
}
static inline CUresult gs_launch_end(struct gs_ticket *ticket, CUresult result) {
  return GS_LIKELY(!ticket->stream) ? result : gs_launch_finish(ticket, result);
}
/* For work that the driver itself may wait for: it is given without the stream's lock, between these. */
bool gs_launch_unlock(struct gs_ticket *ticket, CUstream *stream); /* false: it is given as all other work */
void gs_launch_relock(struct gs_ticket *ticket, CUstream given_to);
extern uint64_t gs_uncontended_epoch; /* the daemon's epoch while alone; above every epoch otherwise */
static inline bool gs_is_uncontended(void) { return GS_PEEK(gs_region.decisions->epoch) == GS_PEEK(gs_uncontended_epoch); }
uint64_t gs_gate_mask(void);   /* partition that work shall go to now; 0: unrestricted */
uint64_t gs_gate_virtual_card_mask(void); /* the virtual card that nothing may leave; 0: on none */
bool gs_gate_is_alone(void);      /* neither gated, masked nor with mates */
bool gs_gate_has_neighbours(void);
uint32_t gs_gate_priority_level(void);  /* of its priority where it is on no partition; 0: as the program chose */
/* It has peers that wait for it. Without any credit it is about to be ended, and they with it. */
bool gs_gate_is_exempt(void);
bool gs_gate_limits_queue(void);     /* it matters how much is queued: it is gated, or borrows */
bool gs_gate_may_yield(void);     /* to somebody, */
bool gs_gate_must_yield(void); /* and now */
uint64_t gs_gate_yield_point_ns(void); /* in so much of its work there is a place to stand still */
uint64_t gs_gate_yield_max_ns(void); /* no longer than this at a time */
uint64_t gs_gate_loan_ns(void); /* a borrower queues no more than this at a time; 0: it does not borrow */
void gs_gate_report_completed(void);
void gs_gate_refresh(void);       /* at the daemon's decisions: whether this process can be quiet */

/* busy.c: whether all of these slots have nothing to do */
bool gs_neighbours_are_idle_now(uint64_t neighbours);
bool gs_neighbours_are_idle(uint64_t neighbours); /* or had a moment ago: always asked of the same ones */
void gs_neighbour_activity_forget(void);

/* streams.c, moves.c, turns.c, awaiting.c: which stream work goes to, and in which order */
struct gs_stream *gs_stream_of(CUstream stream, bool per_thread); /* NULL: leave it alone */
CUstream gs_stream_acquire(struct gs_stream *stream);                /* moves, orders and locks it */
void gs_stream_release(struct gs_stream *stream);
CUstream gs_stream_acquire_own(struct gs_stream *stream);            /* the same, but on the caller's own stream */
struct gs_stream *gs_stream_acquire_if_moved(CUstream stream, bool per_thread); /* locked; NULL: it is the caller's own now */
CUresult gs_stream_wait_and_release(struct gs_stream *held);                 /* and lets it go before */
void gs_stream_destroyed(CUstream stream);
bool gs_streams_drop_context(CUcontext context); /* true: the partitions went with it */
void gs_streams_forget(void); /* without a word to the driver */
void gs_streams_wait(void);                      /* until what runs on partitions is done */
void gs_streams_before_capture(void);
bool gs_capturing(CUstream stream, bool per_thread);
void gs_streams_evict(uint32_t partition);                        /* nobody may use that partition from now on */
bool gs_streams_move_back(void);                                     /* to the caller's own; true: all are */
void gs_streams_visit(void (*visit)(struct gs_stream *stream));   /* those nobody is using now, locked */
/* capture.c: captures, and events that belong to one */
bool gs_event_is_captured(CUevent event);
void gs_capture_note_event(CUevent event, CUstream stream, bool per_thread);
bool gs_capture_forget(CUstream own); /* whether one was begun on it; it counts until it is over */
void gs_capture_ended(void);
void gs_captures_drop_context(CUcontext context);

/* Another thread may begin a capture at any moment, and some of what we ask of the driver would then spoil it, were
 * this thread not exempt while it asks. What the program had chosen for the thread is put back. */
CUstreamCaptureMode gs_relax(void);
void gs_unrelax(CUstreamCaptureMode mode);
CUresult gs_event_query(CUevent event);
bool gs_event_made(CUevent *event, unsigned int flags); /* at first need; false: it could not be */
/* Records an event of ours, made at first need; one that does not belong to the stream's context, because its maker was
 * in another, is made anew the next time. */
bool gs_event_record(CUevent *event, unsigned int flags, CUstream stream);

extern uint32_t gs_active_captures;      /* streams now being captured, in this process */
extern uint32_t gs_moved_streams; /* streams that are not the caller's own now */
extern uint32_t gs_blocking_streams;      /* blocking streams the caller made */
extern pthread_rwlock_t gs_partitions_lock; /* written while partitions come and go */

/* partition.c */
int32_t gs_partition_of(uint64_t mask); /* found or made; -1: none, run unrestricted. gs_partitions_lock is held for reading */
int32_t gs_partition_to_keep(uint64_t mask); /* found, never made; there until its context goes: graphs run on it */
uint64_t gs_partition_mask(uint32_t partition);
uint32_t gs_partition_sms(uint32_t partition);
CUresult gs_partition_stream(uint32_t partition, int priority, CUstream *stream);
void gs_partitions_end(void); /* nobody is on any afterwards. gs_partitions_lock is held for writing */
void gs_partitions_forget(void);

/* flight.c: what is queued, and when it is done */
void gs_flight_launching(struct gs_stream *stream, uint64_t cost_ns); /* the stream is locked */
void gs_flight_launched(struct gs_stream *stream);
void gs_flight_settle(struct gs_stream *stream);
void gs_flight_destroy(struct gs_stream *stream);
void gs_flight_abandon(struct gs_stream *stream); /* the same, where its context took the events along */
uint64_t gs_flight_ns(void); /* predicted time of what is queued */
void gs_flight_start_watcher(void);  /* a helper thread looks while there is something to see */
void gs_flight_after_sync(void); /* the caller has waited for something */
void gs_flight_forget(void);
bool gs_start_thread(pthread_t *thread, void *(*run)(void *)); /* one of ours, without the program's signals */

/* yielding.c: standing still on the card while others go first */
void gs_yield_before(struct gs_stream *stream, const struct gs_kernel_info *info, uint64_t cost_ns);
void gs_yield_context_ending(CUcontext context);
void gs_yield_suspend(void);  /* nothing stands still from here */
void gs_yield_resume(void); /* to there */
void gs_yield_stop(void);
void gs_yield_forget(void);

/* measure.c: what is known of kernels */
enum { GS_DUE_SAMPLE = 1, GS_DUE_SETTLE = 2 }; /* this launch is to be timed; one that was is to be looked at */
struct gs_kernel_info *gs_measure_launch(const struct gs_work *work, uint32_t *due);
void gs_measure_captured(const struct gs_work *work); /* it goes into a graph */
uint64_t gs_measure_cost_ns(const struct gs_kernel_info *info, const struct gs_work *work);
bool gs_measure_needs_samples(const struct gs_kernel_info *info); /* each of its next launches is to be timed */
void gs_measure_add_sample(struct gs_kernel_info *info, uint32_t width, float us);
uint32_t gs_measure_width_now(void);      /* of the partition that work goes to: times are kept apart by it */
void gs_measure_set_mask(uint64_t mask);     /* work goes to this partition from now on; 0: unrestricted */
void gs_measure_forget(void);

/* samples.c: launches that are timed */
enum { GS_NO_SAMPLE = 0, GS_SAMPLE_BEGUN = 1, GS_SAMPLE_UNLOCKED = 2 };
void gs_sample_begin(struct gs_stream *stream, struct gs_kernel_info *info);
void gs_sample_end(struct gs_stream *stream, CUresult result);
void gs_samples_settle(struct gs_stream *stream);
void gs_samples_destroy(struct gs_stream *stream);
void gs_samples_abandon(struct gs_stream *stream); /* the same, where its context took the events along */
extern uint32_t gs_pending_samples; /* on their way, on any stream */

/* iterations.c */
void gs_iterations_add_launch(uint64_t launch, uint64_t key);
void gs_iterations_forget(void);

#endif
