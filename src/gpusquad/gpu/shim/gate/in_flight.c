/* What is queued and when it is done. Launches of a stream are gathered in batches, each ended by an event; `in_flight`
 * of the process counts batches, so that mates see when this tenant has nothing to do and use the card at once, without
 * the daemon. A helper thread ends the last batch and looks at events; it runs only while there are mates, and sleeps
 * while nothing is queued.
 *
 * Events and questions cost the launching thread time, since the driver has locks. A tenant that nothing holds back is
 * not counted closely: its batches are long, and while it launches nobody asks whether it is done. */
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "streams/streams.h"

#define BATCH_LAUNCHES 32u
#define BATCH_NS 500000u
#define LONG_BATCH_LAUNCHES 1024u /* of a tenant that is not counted closely */
#define LONG_BATCH_NS 5000000u
#define LOOK_EVERY_NS 50000u
#define LOOK_RARELY_NS 100000u /* at a tenant that is not counted closely */
#define DOZE_NS 1000000u       /* between its requests: a thread that sleeps would have to be woken by the next one */
#define DOZES_NS 100000000u
#define STILL_LAUNCHING_NS 40000u
#define SLEEP_NS 20000000u /* with nothing queued: only to see whether there still are mates */

static uint64_t queued_ns;
static uint32_t watching; /* the helper thread lives */
static uint32_t stop;
static uint32_t asleep;
static uint32_t bell; /* futex: there is something to look at */
static pthread_t watcher;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t gs_flight_ns(void) { return GS_PEEK(queued_ns); }

static void ring_bell(void) {
  GS_ADD(bell, 1);
  if (GS_LOAD(asleep)) gs_futex_wake(&bell, 1);
}

void gs_flight_launching(struct gs_stream *stream, uint64_t cost_ns) {
  GS_ADD(queued_ns, cost_ns);
  stream->open_ns += cost_ns;
  if (stream->open++ == 0 && GS_ADD(gs_region.process->in_flight, 1) == 1) ring_bell();
}

static void end_batch(struct gs_stream *stream) {
  if (stream->batch_count == GS_BATCHES) return; /* then this one grows */
  struct gs_batch *batch = &stream->batches[(stream->first_batch + stream->batch_count) % GS_BATCHES];
  if (!gs_event_record(&batch->event, CU_EVENT_DISABLE_TIMING, stream->current)) return;
  batch->cost_ns = stream->open_ns;
  stream->batch_count++;
  stream->open = 0;
  stream->open_ns = 0;
}

/* An event on the legacy stream is a barrier among blocking streams. Right behind a launch it adds none; later it
 * might, so then only the caller may set it. */
static bool only_caller_ends(const struct gs_stream *stream) {
  return stream->current == stream->own &&
         (stream->kind == GS_PER_THREAD || (stream->kind == GS_LEGACY && GS_PEEK(gs_blocking_streams)));
}

/* A borrower sees its queue shrink by batches, so a loan has several; a look is shorter than one. */
static uint64_t part_of_loan_ns(uint64_t parts, uint64_t at_most_ns) {
  uint64_t part_ns = gs_gate_loan_ns() / parts;
  return part_ns && part_ns < at_most_ns ? part_ns : at_most_ns;
}

static bool is_full(const struct gs_stream *stream) {
  if (!gs_gate_limits_queue()) return stream->open >= LONG_BATCH_LAUNCHES || stream->open_ns >= LONG_BATCH_NS;
  return stream->open >= BATCH_LAUNCHES || stream->open_ns >= part_of_loan_ns(4, BATCH_NS);
}

/* Whether a stream is done can be asked of all but another thread's default stream. */
static bool can_be_asked(const struct gs_stream *stream) {
  return stream->kind != GS_PER_THREAD || stream->current != stream->own;
}

/* It is where it is not counted closely; and where only the caller could end a batch, but had no room for it, was
 * capturing, or was not counted closely then. Nobody knows whether it comes again. */
static bool is_asked(const struct gs_stream *stream) {
  return can_be_asked(stream) && (!gs_gate_limits_queue() || only_caller_ends(stream));
}

void gs_flight_launched(struct gs_stream *stream) {
  if (GS_PEEK(gs_active_captures)) return;
  bool now_or_never = only_caller_ends(stream) && (gs_gate_limits_queue() || !can_be_asked(stream));
  if (is_full(stream) || now_or_never) end_batch(stream);
}

static void batch_done(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  GS_SUB(queued_ns, cost_ns);
  gs_gate_report_completed();
  GS_STORE(process->idle_since_ns, gs_now_ns()); /* first: mates who see that nothing is left see since when */
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

/* The stream goes away: what it still runs is no longer counted. */
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

static void ask_whether_done(struct gs_stream *stream) {
  if (GS_CALL(cuStreamQuery)(stream->current) == CUDA_ERROR_NOT_READY) return;
  batch_done(stream->open_ns);
  stream->open = 0;
  stream->open_ns = 0;
}

static void look_after_sync(struct gs_stream *stream) {
  bool is_meant = !gs_is_default(stream->current) || gs_in_own_context(stream);
  if (GS_LOAD(gs_active_captures) || !is_meant) return;
  gs_flight_settle(stream);
  bool ours = stream->kind == GS_PER_THREAD && stream->thread == gs_this_thread();
  if (stream->open && !stream->batch_count && (ours || is_asked(stream))) ask_whether_done(stream);
}

/* The caller has waited for something. So that mates know of it at once, and not when the helper looks. */
void gs_flight_after_sync(void) {
  if (GS_LOAD(gs_region.process->in_flight)) gs_streams_visit(look_after_sync);
}

static bool is_launching(void) {
  return !gs_gate_limits_queue() && gs_now_ns() - GS_PEEK(gs_region.process->last_launch_ns) < STILL_LAUNCHING_NS;
}

static void look(struct gs_stream *stream) {
  if (!stream->open && !stream->batch_count && !stream->sample_count) return;
  if (GS_LOAD(gs_active_captures) || is_launching()) return;
  GS_CALL(cuCtxSetCurrent)(stream->context->handle);
  gs_flight_settle(stream);
  gs_samples_settle(stream);
  if (!stream->open || stream->batch_count) return;
  if (is_asked(stream))
    ask_whether_done(stream);
  else if (!only_caller_ends(stream))
    end_batch(stream);
}

static long nap_ns(void) {
  struct gs_process *process = gs_region.process;
  if (gs_gate_limits_queue()) return GS_LOAD(process->in_flight) ? (long)part_of_loan_ns(8, LOOK_EVERY_NS) : 0;
  if (GS_LOAD(process->in_flight)) return LOOK_RARELY_NS;
  return gs_now_ns() - GS_PEEK(process->last_launch_ns) < DOZES_NS ? DOZE_NS : 0;
}

static void rest(void) {
  uint32_t seen = GS_LOAD(bell);
  struct timespec nap = {0, nap_ns()};
  if (nap.tv_nsec) {
    nanosleep(&nap, NULL);
    return;
  }
  GS_STORE(asleep, 1);
  if (!GS_LOAD(gs_region.process->in_flight) && !GS_LOAD(stop)) gs_futex_wait(&bell, seen, SLEEP_NS);
  GS_STORE(asleep, 0);
}

/* Under the lock, so that a launch that wants it either finds it alive or starts another. */
static bool nothing_to_watch(void) {
  pthread_mutex_lock(&watch_lock);
  bool nothing = GS_LOAD(stop) || (!gs_gate_has_neighbours() && !GS_LOAD(gs_region.process->in_flight));
  if (nothing) GS_STORE(watching, 0);
  pthread_mutex_unlock(&watch_lock);
  return nothing;
}

static void *watch(void *unused) {
  (void)unused;
  gs_relax(); /* for good: this thread is ours */
  prctl(PR_SET_TIMERSLACK, 1000ul);
  while (!nothing_to_watch()) {
    gs_streams_visit(look);
    rest();
  }
  return NULL;
}

bool gs_start_thread(pthread_t *thread, void *(*run)(void *)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
  bool started = pthread_create(thread, NULL, run, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_detach(*thread);
  return started;
}

void gs_flight_start_watcher(void) {
  if (GS_LOAD(watching)) return;
  pthread_mutex_lock(&watch_lock);
  if (!watching && !stop && gs_start_thread(&watcher, watch)) GS_STORE(watching, 1);
  pthread_mutex_unlock(&watch_lock);
}

/* The driver is about to go: the helper must not be inside it. */
void gs_gate_stop(void) {
  gs_yield_stop();
  GS_STORE(stop, 1);
  ring_bell();
  for (int i = 0; i < 1000 && GS_LOAD(watching); i++) {
    struct timespec nap = {0, 100000};
    nanosleep(&nap, NULL);
  }
}

void gs_flight_forget(void) {
  watching = stop = asleep = bell = 0;
  queued_ns = 0;
  pthread_mutex_init(&watch_lock, NULL);
}
