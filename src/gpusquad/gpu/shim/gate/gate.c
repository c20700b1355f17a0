/* The gate: a caller that brings work waits here until the daemon's credits cover it. No policy: credits, masks and
 * mates are decided elsewhere and read from shared memory. Nothing is deferred or reordered; the caller waits. */
#include <sys/prctl.h>

#include "gate/gate.h"

#define CONTENDED UINT64_MAX
#define GATE_SLEEP_NS 100000u /* at the gate: how soon an idle mate is noticed */
#define DEFAULT_LOAN_US 2000u
#define DEFAULT_LOAN_WAIT_MAX_US 5000u
#define DEFAULT_YIELD_POINT_US 50u
#define DEFAULT_YIELD_MAX_MS 10000u

uint64_t gs_uncontended_epoch = CONTENDED;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t requested_ns;                /* of this process; asked_us in the region follows it */
static uint64_t seen_credit_us, squad_credit_us; /* the last credit seen, and what it came to beyond what was asked for */

static const struct gs_grant *grant(void) { return gs_region.grant; }

static uint64_t others(uint64_t slots) { return slots & ~(1ull << gs_region.slot) & GS_ALL_SLOTS; }

static uint64_t other_neighbours(void) { return others(GS_PEEK(grant()->neighbours)); }

bool gs_gate_has_neighbours(void) { return GS_LOAD(grant()->state) == GS_LIVE && other_neighbours(); }

static bool yields_to_us(uint32_t slot) {
  return GS_PEEK(gs_region.decisions->grants[slot].yield_to) >> gs_region.slot & 1;
}

/* Of two that shall yield to each other the one of the lower slot goes first: both would stand still for ever. */
static uint64_t yield_to_slots(void) {
  uint64_t first = others(GS_PEEK(grant()->yield_to)), above = first & ~((2ull << gs_region.slot) - 1);
  for (; above; above &= above - 1)
    if (yields_to_us((uint32_t)__builtin_ctzll(above))) first &= ~(above & -above);
  return first;
}

bool gs_gate_may_yield(void) { return GS_LOAD(grant()->state) == GS_LIVE && yield_to_slots() && !gs_gate_is_exempt(); }

bool gs_gate_must_yield(void) {
  return gs_gate_may_yield() && gs_daemon_alive(gs_region.decisions) && !gs_neighbours_are_idle_now(yield_to_slots());
}

uint32_t gs_gate_priority_level(void) {
  uint32_t level = GS_PEEK(grant()->priority_level);
  if (GS_LIKELY(!level) || !gs_gate_has_neighbours() || !gs_daemon_alive(gs_region.decisions)) return 0;
  return level < GS_LEVELS ? level : GS_LEVELS;
}

bool gs_gate_is_alone(void) {
  if (GS_LOAD(grant()->state) != GS_LIVE) return true;
  if (GS_PEEK(grant()->credit_us) != GS_UNGATED || other_neighbours() || gs_gate_may_yield()) return false;
  return !GS_PEEK(grant()->mask) && !GS_PEEK(grant()->virtual_card_mask);
}

static void charge(uint64_t cost_ns) {
  uint64_t sum_ns = GS_ADD(requested_ns, cost_ns);
  GS_STORE(gs_region.process->requested_us, sum_ns / 1000);
}

/* What is asked for and no longer queued is done. */
void gs_gate_report_completed(void) {
  uint64_t asked = GS_LOAD(requested_ns), queued = gs_flight_ns();
  GS_STORE(gs_region.process->completed_us, (asked > queued ? asked - queued : 0) / 1000);
}

static uint64_t client_requested_us(void) {
  uint64_t sum_us = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) sum_us += GS_PEEK(gs_region.client->procs[i].requested_us);
  return sum_us;
}

static bool lent(void) { return (GS_PEEK(grant()->flags) & GS_LEND) && other_neighbours() && gs_neighbours_are_idle(other_neighbours()); }

uint64_t gs_gate_mask(void) {
  uint64_t mask = GS_PEEK(grant()->mask), until_us = GS_PEEK(grant()->restricted_us);
  if (GS_LOAD(grant()->state) != GS_LIVE) return 0;
  if (!mask || (until_us && client_requested_us() >= until_us)) return GS_PEEK(grant()->virtual_card_mask);
  if (lent() || !gs_daemon_alive(gs_region.decisions)) return GS_PEEK(grant()->virtual_card_mask);
  return mask;
}

uint64_t gs_gate_virtual_card_mask(void) { return GS_LOAD(grant()->state) == GS_LIVE ? GS_PEEK(grant()->virtual_card_mask) : 0; }

/* Credits. */

/* Something larger than all the credit of a squad would never fit: it passes while any is left, and the debt stays. */
static bool within_credit(uint64_t cost_us) {
  uint64_t credit_us = GS_LOAD(grant()->credit_us), requested_us = client_requested_us();
  if (credit_us == GS_UNGATED) return true;
  if (credit_us != seen_credit_us) {
    seen_credit_us = credit_us;
    squad_credit_us = credit_us > requested_us ? credit_us - requested_us : 0;
  }
  return requested_us + cost_us <= credit_us || (requested_us < credit_us && cost_us > squad_credit_us);
}

/* Whether it matters how much of this tenant is queued. */
bool gs_gate_limits_queue(void) {
  return GS_PEEK(grant()->credit_us) != GS_UNGATED || (GS_PEEK(grant()->flags) & GS_LEND);
}

static uint64_t in_ns(uint32_t us, uint32_t otherwise_us) { return 1000ull * (us ? us : otherwise_us); }

uint64_t gs_gate_yield_point_ns(void) { return in_ns(GS_PEEK(grant()->yield_point_us), DEFAULT_YIELD_POINT_US); }

uint64_t gs_gate_yield_max_ns(void) {
  return 1000 * in_ns(GS_PEEK(grant()->yield_max_ms), DEFAULT_YIELD_MAX_MS);
}

uint64_t gs_gate_loan_ns(void) {
  return GS_PEEK(grant()->flags) & GS_LEND ? in_ns(GS_PEEK(grant()->loan_us), DEFAULT_LOAN_US) : 0;
}

/* Whoever has had to wait goes on when half of the queue is done: one sleep for half a loan, not for each launch. */
static bool loan_allows(uint64_t cost_ns, uint64_t waited_ns) {
  uint64_t queued_ns = gs_flight_ns(), loan_ns = gs_gate_loan_ns();
  if (!queued_ns || (queued_ns + cost_ns <= loan_ns && (!waited_ns || queued_ns <= loan_ns / 2))) return true;
  return waited_ns >= in_ns(GS_PEEK(grant()->loan_wait_max_us), DEFAULT_LOAN_WAIT_MAX_US);
}

bool gs_gate_is_exempt(void) { return GS_PEEK(gs_region.process->uses_collectives) && GS_PEEK(grant()->credit_us); }

static bool may_pass(uint64_t cost_ns, uint64_t waited_ns) {
  bool masked_only = GS_PEEK(grant()->credit_us) == GS_UNGATED && GS_PEEK(grant()->mask);
  if (gs_gate_is_exempt()) return true;
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
  return loan_ns && loan_ns / 8 < GATE_SLEEP_NS ? loan_ns / 8 : GATE_SLEEP_NS;
}

static void nap(uint32_t epoch) {
  if (gs_flight_ns() && !GS_PEEK(gs_active_captures)) gs_streams_visit(gs_flight_settle);
  gs_futex_wait(&gs_region.decisions->epoch, epoch, nap_ns());
}

static void wait_at_gate(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  uint64_t start_ns = gs_now_ns();
  int slack_ns = prctl(PR_GET_TIMERSLACK); /* of this thread: how late the kernel may end its naps */
  GS_ADD(process->waits, 1);
  GS_ADD(process->waiting, 1);
  prctl(PR_SET_TIMERSLACK, 1000ul);
  for (;;) {
    uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
    if (try_pass(cost_ns, gs_now_ns() - start_ns)) break;
    nap(epoch);
  }
  if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
  GS_ADD(process->waited_ns, gs_now_ns() - start_ns);
  GS_SUB(process->waiting, 1);
}

/* Neither credit nor loan bounds what it has queued. */
static bool is_ungated(void) { return !gs_gate_limits_queue() || GS_LOAD(grant()->state) != GS_LIVE; }

static void pass_gate(const struct gs_kernel_info *info, uint64_t cost_ns) {
  if (info->collective || is_ungated())
    charge(cost_ns); /* of a collective its peers spin: it goes now, and later launches pay for it */
  else if (!try_pass(cost_ns, 0))
    wait_at_gate(cost_ns);
  GS_STORE(gs_region.process->last_launch_ns, gs_now_ns());
}

/* Quiet or not. */

void gs_gate_refresh(void) {
  uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
  if (GS_LOAD(gs_uncontended_epoch) == epoch) return;
  bool uncontended = gs_gate_is_alone() && gs_streams_move_back() && !GS_LOAD(gs_region.process->in_flight);
  GS_STORE(gs_uncontended_epoch, uncontended ? epoch : CONTENDED);
  if (!uncontended) gs_flight_start_watcher();
}

/* Nobody waits for credit, nothing is followed: what is asked for counts as done. Without the cost of an atomic sum:
 * of two threads at the same instant one may be lost, in a figure that is a prediction. */
static void pass_uncontended(uint64_t cost_ns) {
  uint64_t sum_ns = GS_PEEK(requested_ns) + cost_ns, sum_us = sum_ns / 1000;
  __atomic_store_n(&requested_ns, sum_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->requested_us, sum_us, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->completed_us, sum_us, __ATOMIC_RELAXED);
}

static void start_timing(struct gs_stream *stream, struct gs_kernel_info *info, uint32_t due) {
  if (!due || GS_PEEK(gs_active_captures)) return; /* asking for events may break another thread's capture */
  gs_samples_settle(stream);
  if (due & GS_DUE_SAMPLE) gs_sample_begin(stream, info);
}

static CUstream begin_slow(struct gs_ticket *ticket, uint64_t cost_ns, uint32_t due, CUstream stream,
                                bool per_thread) {
  gs_gate_refresh();
  bool uncontended = gs_is_uncontended();
  if (uncontended)
    pass_uncontended(cost_ns);
  else
    pass_gate(ticket->info, cost_ns);
  struct gs_stream *taken = gs_stream_of(stream, per_thread);
  if (!taken) return stream;
  gs_stream_acquire(taken);
  if (!uncontended) gs_flight_launching(taken, cost_ns); /* first: only what is known to be queued is made to stand still */
  if (!uncontended) gs_yield_before(taken, ticket->info, cost_ns);
  start_timing(taken, ticket->info, due);
  ticket->captured = GS_UNCAPTURED;
  ticket->stream = taken;
  return taken->current;
}

CUstream gs_launch_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread) {
  ticket->stream = NULL;
  if (!gs_attached()) return stream;
  if (GS_UNLIKELY(GS_PEEK(gs_active_captures)) && gs_capturing(stream, per_thread)) {
    gs_measure_captured(work);
    return gs_detour_begin(ticket, work, stream, per_thread);
  }
  uint32_t due;
  ticket->info = gs_measure_launch(work, &due);
  uint64_t cost_ns = gs_measure_cost_ns(ticket->info, work);
  if (GS_UNLIKELY(due || !gs_is_uncontended())) return begin_slow(ticket, cost_ns, due, stream, per_thread);
  pass_uncontended(cost_ns);
  return stream;
}

/* Not on a partition, for that may go as soon as the stream is let go of. While something is captured nothing moves. */
bool gs_launch_unlock(struct gs_ticket *ticket, CUstream *stream) {
  struct gs_stream *taken = ticket->stream;
  if (GS_PEEK(gs_active_captures)) return false;
  if (gs_stream_leave_partition(taken)) gs_sample_moved(taken);
  *stream = taken->current;
  ticket->timed = taken->sampling == GS_SAMPLE_BEGUN;
  if (ticket->timed) taken->sampling = GS_SAMPLE_UNLOCKED; /* nobody else ends it */
  gs_stream_release(taken);
  return true;
}

/* Where the driver did not wait, and another thread has moved the stream meanwhile, what comes next must follow it. */
void gs_launch_relock(struct gs_ticket *ticket, CUstream given_to) {
  struct gs_stream *taken = ticket->stream;
  pthread_mutex_lock(&taken->lock);
  if (taken->current != given_to && !GS_PEEK(gs_active_captures) &&
      (!gs_event_record(&taken->order_event, CU_EVENT_DISABLE_TIMING, given_to) ||
       GS_CALL(cuStreamWaitEvent)(taken->current, taken->order_event, 0)))
    GS_CALL(cuStreamSynchronize)(given_to);
  if (ticket->timed && taken->sampling == GS_SAMPLE_UNLOCKED) taken->sampling = GS_SAMPLE_BEGUN;
}

CUresult gs_launch_finish(struct gs_ticket *ticket, CUresult result) {
  if (GS_UNLIKELY(ticket->captured)) return gs_detour_end(ticket, result);
  gs_sample_end(ticket->stream, result);
  if (ticket->stream->open) gs_flight_launched(ticket->stream);
  gs_stream_release(ticket->stream);
  return result;
}

/* Called by entry.c. */

/* Counts go on where the last process in this place left them. */
void gs_gate_attached(void) {
  GS_STORE(requested_ns, 1000 * GS_LOAD(gs_region.process->requested_us));
  GS_STORE(gs_uncontended_epoch, CONTENDED);
}

void gs_gate_forget(void) {
  pthread_mutex_init(&gate_lock, NULL);
  gs_neighbour_activity_forget();
  if (!requested_ns) return; /* the parent launched nothing: there is nothing more to forget */
  gs_uncontended_epoch = CONTENDED;
  requested_ns = seen_credit_us = squad_credit_us = 0;
  gs_streams_forget();
  gs_partitions_forget();
  gs_flight_forget();
  gs_yield_forget();
  gs_measure_forget();
}
