/* What is queued and when it is complete.
 *
 * Launches of a stream are grouped in batches, each closed by an event. The process reports the number of batches in
 * flight, so neighbours see when this client is idle and use the card at once, without the daemon. The watcher thread
 * closes the last batch and queries events. It runs only while there are neighbours and sleeps while the queue is
 * empty.
 *
 * Events and queries cost the launching thread time, because the driver has locks. If neither credit nor a loan limits
 * the queue, batches are long and the watcher does not query while the client launches. */
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "gate/gate.h"

#define BATCH_LAUNCHES 32u
#define BATCH_NS 500000u
#define LONG_BATCH_LAUNCHES 1024u /* if the queue is not limited */
#define LONG_BATCH_NS 5000000u
#define CHECK_INTERVAL_NS 50000u
#define LONG_CHECK_INTERVAL_NS 100000u /* if the queue is not limited */
#define BETWEEN_REQUESTS_NS 1000000u       /* the next launch need not wake a thread that polls */
#define REQUEST_PAUSE_NS 100000000u
#define STILL_LAUNCHING_NS 40000u
#define IDLE_SLEEP_NS 20000000u /* then check whether there still are neighbours */

static uint64_t queued_ns;
static uint32_t watcher_alive;
static uint32_t stopping;
static uint32_t watcher_asleep;
static uint32_t wake_count; /* futex word of the watcher */
static pthread_t watcher;
static pthread_mutex_t watcher_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t gs_flight_ns(void) { return GS_PEEK(queued_ns); }

static void wake_watcher(void) {
  GS_ADD(wake_count, 1);
  if (GS_LOAD(watcher_asleep)) gs_futex_wake(&wake_count, 1);
}

void gs_flight_launching(struct gs_stream *stream, uint64_t cost_ns) {
  GS_ASSERT_HELD(&stream->lock);
  GS_ADD(queued_ns, cost_ns);
  stream->open_ns += cost_ns;
  if (stream->open++ == 0 && GS_ADD(gs_region.process->in_flight, 1) == 1) wake_watcher();
}

static void close_batch(struct gs_stream *stream) {
  if (stream->batch_count == GS_BATCHES) return; /* the open batch grows */
  struct gs_batch *batch = &stream->batches[(stream->first_batch + stream->batch_count) % GS_BATCHES];
  if (!gs_event_record(&batch->event, CU_EVENT_DISABLE_TIMING, stream->current)) return;
  batch->cost_ns = stream->open_ns;
  stream->batch_count++;
  stream->open = 0;
  stream->open_ns = 0;
}

/* An event on the legacy stream is a barrier among blocking streams. Directly after a launch it adds none. Later it
 * might, so only the caller may record it. */
static bool only_caller_can_end(const struct gs_stream *stream) {
  return stream->current == stream->own &&
         (stream->kind == GS_PER_THREAD || (stream->kind == GS_LEGACY && GS_PEEK(gs_blocking_streams)));
}

/* A borrower sees its queue shrink batch by batch, so a loan is several batches and a check is shorter than one. */
static uint64_t part_of_loan_ns(uint64_t parts, uint64_t at_most_ns) {
  uint64_t part_ns = gs_grant_loan_ns() / parts;
  return part_ns && part_ns < at_most_ns ? part_ns : at_most_ns;
}

static bool is_full(const struct gs_stream *stream) {
  if (!gs_grant_limits_queue()) return stream->open >= LONG_BATCH_LAUNCHES || stream->open_ns >= LONG_BATCH_NS;
  return stream->open >= BATCH_LAUNCHES || stream->open_ns >= part_of_loan_ns(4, BATCH_NS);
}

/* The driver can be queried about all streams except another thread's default stream. */
static bool can_be_queried(const struct gs_stream *stream) {
  return stream->kind != GS_PER_THREAD || stream->current != stream->own;
}

/* A stream is queried if its queue is not limited. It is also queried if only the caller could close the batch but had
 * no room for it, was capturing, or had an unlimited queue then: the caller may never launch again. */
static bool is_queried(const struct gs_stream *stream) {
  return can_be_queried(stream) && (!gs_grant_limits_queue() || only_caller_can_end(stream));
}

void gs_flight_launched(struct gs_stream *stream) {
  if (GS_PEEK(gs_active_captures)) return;
  bool now_or_never = only_caller_can_end(stream) && (gs_grant_limits_queue() || !can_be_queried(stream));
  if (is_full(stream) || now_or_never) close_batch(stream);
}

static void batch_done(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  GS_SUB(queued_ns, cost_ns);
  gs_gate_report_completed();
  GS_STORE(process->idle_since_ns, gs_now_ns()); /* first: neighbours that see an empty queue also see since when */
  GS_SUB(process->in_flight, 1);
}

void gs_flight_settle(struct gs_stream *stream) {
  while (stream->batch_count) {
    struct gs_batch *batch = &stream->batches[stream->first_batch];
    if (gs_event_query(batch->event) == CUDA_ERROR_NOT_READY) return;
    batch_done(batch->cost_ns);
    stream->first_batch = (stream->first_batch + 1) % GS_BATCHES;
    stream->batch_count--;
  }
}

/* What the stream still runs is no longer counted. */
void gs_flight_abandon(struct gs_stream *stream) {
  for (; stream->batch_count; stream->batch_count--) {
    batch_done(stream->batches[stream->first_batch].cost_ns);
    stream->first_batch = (stream->first_batch + 1) % GS_BATCHES;
  }
  if (stream->open) batch_done(stream->open_ns);
  stream->open = 0;
  stream->open_ns = 0;
}

void gs_flight_destroy(struct gs_stream *stream) {
  gs_flight_abandon(stream);
  for (uint32_t i = 0; i < GS_BATCHES; i++)
    if (stream->batches[i].event) GS_CALL(cuEventDestroy_v2)(stream->batches[i].event);
}

static void query_stream(struct gs_stream *stream) {
  if (GS_CALL(cuStreamQuery)(stream->current) == CUDA_ERROR_NOT_READY) return;
  batch_done(stream->open_ns);
  stream->open = 0;
  stream->open_ns = 0;
}

static void check_after_sync(struct gs_stream *stream) {
  bool is_meant = !gs_is_default(stream->current) || gs_in_own_context(stream);
  if (GS_LOAD(gs_active_captures) || !is_meant) return;
  gs_flight_settle(stream);
  bool ours = stream->kind == GS_PER_THREAD && stream->thread == gs_this_thread();
  if (stream->open && !stream->batch_count && (ours || is_queried(stream))) query_stream(stream);
}

/* Neighbours learn of completed work at once, and not when the watcher checks. */
void gs_flight_after_sync(void) {
  if (GS_LOAD(gs_region.process->in_flight)) gs_streams_visit(check_after_sync);
}

static bool is_launching(void) {
  return !gs_grant_limits_queue() && gs_now_ns() - GS_PEEK(gs_region.process->last_launch_ns) < STILL_LAUNCHING_NS;
}

static void check(struct gs_stream *stream) {
  if (!stream->open && !stream->batch_count && !stream->sample_count) return;
  if (GS_LOAD(gs_active_captures) || is_launching()) return;
  GS_CALL(cuCtxSetCurrent)(stream->context->handle);
  gs_flight_settle(stream);
  gs_samples_settle(stream);
  if (!stream->open || stream->batch_count) return;
  if (is_queried(stream))
    query_stream(stream);
  else if (!only_caller_can_end(stream))
    close_batch(stream);
}

static long sleep_ns(void) {
  struct gs_process *process = gs_region.process;
  if (gs_grant_limits_queue()) return GS_LOAD(process->in_flight) ? (long)part_of_loan_ns(8, CHECK_INTERVAL_NS) : 0;
  if (GS_LOAD(process->in_flight)) return LONG_CHECK_INTERVAL_NS;
  return gs_now_ns() - GS_PEEK(process->last_launch_ns) < REQUEST_PAUSE_NS ? BETWEEN_REQUESTS_NS : 0;
}

static void wait_for_work(void) {
  uint32_t seen = GS_LOAD(wake_count);
  struct timespec duration = {0, sleep_ns()};
  if (duration.tv_nsec) {
    nanosleep(&duration, NULL);
    return;
  }
  GS_STORE(watcher_asleep, 1);
  if (!GS_LOAD(gs_region.process->in_flight) && !GS_LOAD(stopping)) gs_futex_wait(&wake_count, seen, IDLE_SLEEP_NS);
  GS_STORE(watcher_asleep, 0);
}

/* Decided under the lock, so that a launch either finds the watcher alive or starts another. */
static bool nothing_to_watch(void) {
  gs_lock(&watcher_lock, GS_RANK_LEAF);
  bool nothing = GS_LOAD(stopping) || (!gs_grant_has_neighbours() && !GS_LOAD(gs_region.process->in_flight));
  if (nothing) GS_STORE(watcher_alive, 0);
  gs_unlock(&watcher_lock);
  return nothing;
}

static void *run_watcher(void *unused) {
  (void)unused;
  gs_relax(); /* never undone: this thread is ours */
  prctl(PR_SET_TIMERSLACK, 1000ul);
  while (!nothing_to_watch()) {
    gs_streams_visit(check);
    wait_for_work();
  }
  return NULL;
}

bool gs_start_thread(pthread_t *thread, void *(*run)(void *)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's own threads handle its signals */
  bool started = pthread_create(thread, NULL, run, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_detach(*thread);
  return started;
}

void gs_flight_start_watcher(void) {
  if (GS_LOAD(watcher_alive)) return;
  gs_lock(&watcher_lock, GS_RANK_LEAF);
  if (!watcher_alive && !stopping && gs_start_thread(&watcher, run_watcher)) GS_STORE(watcher_alive, 1);
  gs_unlock(&watcher_lock);
}

void gs_flight_stop_watcher(void) {
  GS_STORE(stopping, 1);
  wake_watcher();
  for (int i = 0; i < 1000 && GS_LOAD(watcher_alive); i++) {
    struct timespec duration = {0, 100000};
    nanosleep(&duration, NULL);
  }
}

void gs_flight_forget(void) {
  watcher_alive = stopping = watcher_asleep = wake_count = 0;
  queued_ns = 0;
  pthread_mutex_init(&watcher_lock, NULL);
}
