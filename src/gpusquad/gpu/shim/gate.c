/* The gate: a caller that brings work waits here until the daemon's credits cover it. No policy: credits, masks and
 * mates are decided elsewhere and read from shared memory. Nothing is deferred or reordered; the caller waits. */
#include <sys/prctl.h>

#include "gate.h"

#define NOT_QUIET UINT64_MAX
#define NAP_NS 100000u /* at the gate: how soon an idle mate is noticed */
#define DEFAULT_LOAN_US 2000u
#define DEFAULT_PATIENCE_US 5000u
#define DEFAULT_STAND_US 50u
#define DEFAULT_STAND_PATIENCE_MS 10000u

uint64_t gs_quiet_epoch = NOT_QUIET;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t asked_ns;                /* of this process; asked_us in the region follows it */
static uint64_t seen_credit_us, squad_us; /* the last credit seen, and what it came to beyond what was asked for */

static const struct gs_grant *grant(void) { return gs_region.grant; }

static uint64_t others(uint64_t slots) { return slots & ~(1ull << gs_region.slot) & GS_ALL_SLOTS; }

static uint64_t other_mates(void) { return others(GS_PEEK(grant()->mates)); }

bool gs_gate_has_mates(void) { return GS_LOAD(grant()->state) == GS_LIVE && other_mates(); }

static bool yields_to_us(uint32_t slot) {
  return GS_PEEK(gs_region.decisions->grants[slot].yields) >> gs_region.slot & 1;
}

/* Of two that shall yield to each other the one of the lower slot goes first: both would stand still for ever. */
static uint64_t go_first(void) {
  uint64_t first = others(GS_PEEK(grant()->yields)), above = first & ~((2ull << gs_region.slot) - 1);
  for (; above; above &= above - 1)
    if (yields_to_us((uint32_t)__builtin_ctzll(above))) first &= ~(above & -above);
  return first;
}

bool gs_gate_yields(void) { return GS_LOAD(grant()->state) == GS_LIVE && go_first() && !gs_gate_lets_meet(); }

bool gs_gate_must_yield(void) {
  return gs_gate_yields() && gs_daemon_alive(gs_region.decisions) && !gs_mates_idle_now(go_first());
}

uint32_t gs_gate_level(void) {
  uint32_t level = GS_PEEK(grant()->level);
  if (GS_LIKELY(!level) || !gs_gate_has_mates() || !gs_daemon_alive(gs_region.decisions)) return 0;
  return level < GS_LEVELS ? level : GS_LEVELS;
}

bool gs_gate_alone(void) {
  if (GS_LOAD(grant()->state) != GS_LIVE) return true;
  if (GS_PEEK(grant()->credit_us) != GS_UNGATED || other_mates() || gs_gate_yields()) return false;
  return !GS_PEEK(grant()->mask) && !GS_PEEK(grant()->within);
}

static void charge(uint64_t cost_ns) {
  uint64_t sum_ns = GS_ADD(asked_ns, cost_ns);
  GS_STORE(gs_region.process->asked_us, sum_ns / 1000);
}

/* What is asked for and no longer queued is done. */
void gs_gate_tell_done(void) {
  uint64_t asked = GS_LOAD(asked_ns), queued = gs_flight_ns();
  GS_STORE(gs_region.process->done_us, (asked > queued ? asked - queued : 0) / 1000);
}

static uint64_t tenant_asked_us(void) {
  uint64_t sum_us = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) sum_us += GS_PEEK(gs_region.tenant->procs[i].asked_us);
  return sum_us;
}

static bool lent(void) { return (GS_PEEK(grant()->flags) & GS_LEND) && other_mates() && gs_mates_idle(other_mates()); }

uint64_t gs_gate_mask(void) {
  uint64_t mask = GS_PEEK(grant()->mask), until_us = GS_PEEK(grant()->restricted_us);
  if (GS_LOAD(grant()->state) != GS_LIVE) return 0;
  if (!mask || (until_us && tenant_asked_us() >= until_us)) return GS_PEEK(grant()->within);
  if (lent() || !gs_daemon_alive(gs_region.decisions)) return GS_PEEK(grant()->within);
  return mask;
}

uint64_t gs_gate_within(void) { return GS_LOAD(grant()->state) == GS_LIVE ? GS_PEEK(grant()->within) : 0; }

/* Credits. */

/* Something larger than all the credit of a squad would never fit: it passes while any is left, and the debt stays. */
static bool within_credit(uint64_t cost_us) {
  uint64_t credit_us = GS_LOAD(grant()->credit_us), asked_us = tenant_asked_us();
  if (credit_us == GS_UNGATED) return true;
  if (credit_us != seen_credit_us) {
    seen_credit_us = credit_us;
    squad_us = credit_us > asked_us ? credit_us - asked_us : 0;
  }
  return asked_us + cost_us <= credit_us || (asked_us < credit_us && cost_us > squad_us);
}

/* Whether it matters how much of this tenant is queued. */
bool gs_gate_counts(void) {
  return GS_PEEK(grant()->credit_us) != GS_UNGATED || (GS_PEEK(grant()->flags) & GS_LEND);
}

static uint64_t in_ns(uint32_t us, uint32_t otherwise_us) { return 1000ull * (us ? us : otherwise_us); }

uint64_t gs_gate_stand_ns(void) { return in_ns(GS_PEEK(grant()->stand_us), DEFAULT_STAND_US); }

uint64_t gs_gate_stand_patience_ns(void) {
  return 1000 * in_ns(GS_PEEK(grant()->stand_patience_ms), DEFAULT_STAND_PATIENCE_MS);
}

uint64_t gs_gate_loan_ns(void) {
  return GS_PEEK(grant()->flags) & GS_LEND ? in_ns(GS_PEEK(grant()->loan_us), DEFAULT_LOAN_US) : 0;
}

/* Whoever has had to wait goes on when half of the queue is done: one sleep for half a loan, not for each launch. */
static bool loan_allows(uint64_t cost_ns, uint64_t waited_ns) {
  uint64_t queued_ns = gs_flight_ns(), loan_ns = gs_gate_loan_ns();
  if (!queued_ns || (queued_ns + cost_ns <= loan_ns && (!waited_ns || queued_ns <= loan_ns / 2))) return true;
  return waited_ns >= in_ns(GS_PEEK(grant()->loan_patience_us), DEFAULT_PATIENCE_US);
}

bool gs_gate_lets_meet(void) { return GS_PEEK(gs_region.process->meets_peers) && GS_PEEK(grant()->credit_us); }

static bool may_pass(uint64_t cost_ns, uint64_t waited_ns) {
  bool masked_only = GS_PEEK(grant()->credit_us) == GS_UNGATED && GS_PEEK(grant()->mask);
  if (gs_gate_lets_meet()) return true;
  if (GS_LOAD(grant()->state) != GS_LIVE || !gs_daemon_alive(gs_region.decisions)) return true;
  if (!masked_only && within_credit(cost_ns / 1000)) return true;
  return lent() ? loan_allows(cost_ns, waited_ns) : masked_only;
}

/* Looks and charges under one lock: two threads cannot both use the last credit. */
static bool try_pass(uint64_t cost_ns, uint64_t waited_ns) {
  pthread_mutex_lock(&gate_lock);
  bool passes = may_pass(cost_ns, waited_ns);
  if (passes) charge(cost_ns);
  pthread_mutex_unlock(&gate_lock);
  return passes;
}

/* A borrower waits for its own queue: it must be back before that is empty. */
static uint64_t nap_ns(void) {
  uint64_t loan_ns = gs_gate_loan_ns();
  return loan_ns && loan_ns / 8 < NAP_NS ? loan_ns / 8 : NAP_NS;
}

static void nap(uint32_t epoch) {
  if (gs_flight_ns() && !GS_PEEK(gs_captures)) gs_streams_visit(gs_flight_settle);
  gs_futex_wait(&gs_region.decisions->epoch, epoch, nap_ns());
}

static void wait_at_gate(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  uint64_t began_ns = gs_now_ns();
  int slack_ns = prctl(PR_GET_TIMERSLACK); /* of this thread: how late the kernel may end its naps */
  GS_ADD(process->waits, 1);
  GS_ADD(process->waiting, 1);
  prctl(PR_SET_TIMERSLACK, 1000ul);
  for (;;) {
    uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
    if (try_pass(cost_ns, gs_now_ns() - began_ns)) break;
    nap(epoch);
  }
  if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
  GS_ADD(process->waited_ns, gs_now_ns() - began_ns);
  GS_SUB(process->waiting, 1);
}

/* Neither credit nor loan bounds what it has queued. */
static bool has_no_gate(void) { return !gs_gate_counts() || GS_LOAD(grant()->state) != GS_LIVE; }

static void pass_gate(const struct gs_learned *learned, uint64_t cost_ns) {
  if (learned->collective || has_no_gate())
    charge(cost_ns); /* of a collective its peers spin: it goes now, and later launches pay for it */
  else if (!try_pass(cost_ns, 0))
    wait_at_gate(cost_ns);
  GS_STORE(gs_region.process->last_launch_ns, gs_now_ns());
}

/* Quiet or not. */

void gs_gate_look(void) {
  uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
  if (GS_LOAD(gs_quiet_epoch) == epoch) return;
  bool quiet = gs_gate_alone() && gs_streams_return() && !GS_LOAD(gs_region.process->in_flight);
  GS_STORE(gs_quiet_epoch, quiet ? epoch : NOT_QUIET);
  if (!quiet) gs_flight_watch();
}

/* Nobody waits for credit, nothing is followed: what is asked for counts as done. Without the cost of an atomic sum:
 * of two threads at the same instant one may be lost, in a figure that is a prediction. */
static void pass_quietly(uint64_t cost_ns) {
  uint64_t sum_ns = GS_PEEK(asked_ns) + cost_ns, sum_us = sum_ns / 1000;
  __atomic_store_n(&asked_ns, sum_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->asked_us, sum_us, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->done_us, sum_us, __ATOMIC_RELAXED);
}

static void measure_on(struct gs_stream *stream, struct gs_learned *learned, uint32_t due) {
  if (!due || GS_PEEK(gs_captures)) return; /* asking for events may break another thread's capture */
  gs_samples_settle(stream);
  if (due & GS_DUE_SAMPLE) gs_sample_begin(stream, learned);
}

static CUstream begin_with_care(struct gs_ticket *ticket, uint64_t cost_ns, uint32_t due, CUstream stream,
                                bool per_thread) {
  gs_gate_look();
  bool quiet = gs_quiet();
  if (quiet)
    pass_quietly(cost_ns);
  else
    pass_gate(ticket->learned, cost_ns);
  struct gs_stream *taken = gs_stream_of(stream, per_thread);
  if (!taken) return stream;
  gs_stream_take(taken);
  if (!quiet) gs_flight_launching(taken, cost_ns); /* first: only what is known to be queued is made to stand still */
  if (!quiet) gs_yield_before(taken, ticket->learned, cost_ns);
  measure_on(taken, ticket->learned, due);
  ticket->captured = GS_UNCAPTURED;
  ticket->stream = taken;
  return taken->current;
}

CUstream gs_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread) {
  ticket->stream = NULL;
  if (!gs_attached()) return stream;
  if (GS_UNLIKELY(GS_PEEK(gs_captures)) && gs_capturing(stream, per_thread)) {
    gs_measure_captured(work);
    return gs_detour_begin(ticket, work, stream, per_thread);
  }
  uint32_t due;
  ticket->learned = gs_measure_note(work, &due);
  uint64_t cost_ns = gs_measure_cost_ns(ticket->learned, work);
  if (GS_UNLIKELY(due || !gs_quiet())) return begin_with_care(ticket, cost_ns, due, stream, per_thread);
  pass_quietly(cost_ns);
  return stream;
}

/* Not on a partition, for that may go as soon as the stream is let go of. While something is captured nothing moves. */
bool gs_let_go(struct gs_ticket *ticket, CUstream *stream) {
  struct gs_stream *taken = ticket->stream;
  if (GS_PEEK(gs_captures)) return false;
  if (gs_stream_leave_partition(taken)) gs_sample_moved(taken);
  *stream = taken->current;
  ticket->timed = taken->sampling == GS_SAMPLE_BEGUN;
  if (ticket->timed) taken->sampling = GS_SAMPLE_UNLOCKED; /* nobody else ends it */
  gs_stream_release(taken);
  return true;
}

/* Where the driver did not wait, and another thread has moved the stream meanwhile, what comes next must follow it. */
void gs_take_again(struct gs_ticket *ticket, CUstream given_to) {
  struct gs_stream *taken = ticket->stream;
  pthread_mutex_lock(&taken->lock);
  if (taken->current != given_to && !GS_PEEK(gs_captures) &&
      (!gs_event_record(&taken->hop, CU_EVENT_DISABLE_TIMING, given_to) ||
       GS_CALL(cuStreamWaitEvent)(taken->current, taken->hop, 0)))
    GS_CALL(cuStreamSynchronize)(given_to);
  if (ticket->timed && taken->sampling == GS_SAMPLE_UNLOCKED) taken->sampling = GS_SAMPLE_BEGUN;
}

CUresult gs_finish(struct gs_ticket *ticket, CUresult result) {
  if (GS_UNLIKELY(ticket->captured)) return gs_detour_end(ticket, result);
  gs_sample_end(ticket->stream, result);
  if (ticket->stream->open) gs_flight_launched(ticket->stream);
  gs_stream_release(ticket->stream);
  return result;
}

/* Called by entry.c. */

/* Counts go on where the last process in this place left them. */
void gs_gate_attached(void) {
  GS_STORE(asked_ns, 1000 * GS_LOAD(gs_region.process->asked_us));
  GS_STORE(gs_quiet_epoch, NOT_QUIET);
}

void gs_gate_forget(void) {
  pthread_mutex_init(&gate_lock, NULL);
  gs_mates_look_forget();
  if (!asked_ns) return; /* the parent launched nothing: there is nothing more to forget */
  gs_quiet_epoch = NOT_QUIET;
  asked_ns = seen_credit_us = squad_us = 0;
  gs_streams_forget();
  gs_partitions_forget();
  gs_flight_forget();
  gs_yield_forget();
  gs_measure_forget();
}
