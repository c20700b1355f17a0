/* The gate: a thread that launches work waits here until the client's credit covers it. Launches are neither deferred
 * nor reordered; the calling thread waits. Credits, masks and neighbours are decided by the card daemon. */
#include "gate/gate.h"

#include <sys/prctl.h>

#define GATE_SLEEP_NS 100000u /* after this time an idle neighbour is noticed */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t requested_ns; /* by this process; requested_us in the region is derived from it */
static uint64_t seen_credit_us, squad_credit_us; /* the last credit seen; how much of it was unused then */

static void charge(uint64_t cost_ns) {
  uint64_t sum_ns = GS_ADD(requested_ns, cost_ns);
  GS_STORE(gs_region.process->requested_us, sum_ns / 1000);
}

/* What was requested and is no longer queued is complete. */
void gs_gate_report_completed(void) {
  uint64_t requested = GS_LOAD(requested_ns), queued = gs_flight_ns();
  GS_STORE(gs_region.process->completed_us, (requested > queued ? requested - queued : 0) / 1000);
}

/* Credit. */

/* A launch longer than all the credit of a squad would never fit. It passes while any credit is left, and the debt
 * stays. gate_lock is held. */
static bool within_credit(uint64_t cost_us) {
  uint64_t credit_us = GS_LOAD(gs_region.grant->credit_us), requested_us = gs_client_requested_us();
  if (credit_us == GS_UNGATED) return true;
  if (credit_us != seen_credit_us) {
    seen_credit_us = credit_us;
    squad_credit_us = credit_us > requested_us ? credit_us - requested_us : 0;
  }
  return requested_us + cost_us <= credit_us || (requested_us < credit_us && cost_us > squad_credit_us);
}

/* After a wait, resume when half of the loan has drained, so that the thread sleeps once per half loan and not once per
 * launch. */
static bool loan_allows(uint64_t cost_ns, uint64_t waited_ns) {
  uint64_t queued_ns = gs_flight_ns(), loan_ns = gs_grant_loan_ns();
  if (!queued_ns || (queued_ns + cost_ns <= loan_ns && (!waited_ns || queued_ns <= loan_ns / 2))) return true;
  return waited_ns >= gs_grant_loan_wait_max_ns();
}

static bool may_pass(uint64_t cost_ns, uint64_t waited_ns) {
  bool masked_only = GS_PEEK(gs_region.grant->credit_us) == GS_UNGATED && GS_PEEK(gs_region.grant->mask);
  if (gs_grant_is_exempt()) return true;
  if (!gs_grant_is_live() || !gs_daemon_alive(gs_region.decisions)) return true;
  if (!masked_only && within_credit(cost_ns / 1000)) return true;
  return gs_grant_is_lent() ? loan_allows(cost_ns, waited_ns) : masked_only;
}

/* Checks and charges under one lock, so that two threads cannot both use the last credit. */
static bool try_pass(uint64_t cost_ns, uint64_t waited_ns) {
  gs_lock(&gate_lock, GS_RANK_GATE);
  bool passes = may_pass(cost_ns, waited_ns);
  if (passes) charge(cost_ns);
  gs_unlock(&gate_lock);
  return passes;
}

/* A borrower waits for its own queue and must be back before the queue is empty. */
static uint64_t sleep_ns(void) {
  uint64_t loan_ns = gs_grant_loan_ns();
  return loan_ns && loan_ns / 8 < GATE_SLEEP_NS ? loan_ns / 8 : GATE_SLEEP_NS;
}

static void sleep_at_gate(uint32_t epoch) {
  if (gs_flight_ns() && !GS_PEEK(gs_active_captures)) gs_streams_visit(gs_flight_settle);
  gs_futex_wait(&gs_region.decisions->epoch, epoch, sleep_ns());
}

static void wait_at_gate(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  uint64_t start_ns = gs_now_ns();
  int slack_ns = prctl(PR_GET_TIMERSLACK); /* of this thread: how late the kernel may end a sleep */
  GS_ADD(process->waits, 1);
  GS_ADD(process->waiting, 1);
  prctl(PR_SET_TIMERSLACK, 1000ul);
  for (;;) {
    uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
    if (try_pass(cost_ns, gs_now_ns() - start_ns)) break;
    sleep_at_gate(epoch);
  }
  if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
  GS_ADD(process->waited_ns, gs_now_ns() - start_ns);
  GS_SUB(process->waiting, 1);
}

/* Neither credit nor a loan limits the queue. */
static bool is_ungated(void) { return !gs_grant_limits_queue() || !gs_grant_is_live(); }

static void pass_gate(const struct gs_kernel_info *info, uint64_t cost_ns) {
  if (info->collective || is_ungated())
    charge(cost_ns); /* the peers of a collective spin, so it starts now and later launches pay for it */
  else if (!try_pass(cost_ns, 0))
    wait_at_gate(cost_ns);
  GS_STORE(gs_region.process->last_launch_ns, gs_now_ns());
}

/* Contended or not. */

/* Reads a new decision of the daemon: whether this process can be uncontended. */
static void refresh(void) {
  uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
  if (GS_LOAD(gs_uncontended_epoch) == epoch) return;
  bool uncontended = gs_grant_is_alone() && gs_streams_move_back() && !GS_LOAD(gs_region.process->in_flight);
  GS_STORE(gs_uncontended_epoch, uncontended ? epoch : GS_CONTENDED);
  if (!uncontended) gs_flight_start_watcher();
}

/* No launch waits for credit and no queue is followed, so what is requested counts as complete. The sums are not
 * atomic, to save their cost: if two threads add at the same instant, one addition may be lost. The figure is a
 * prediction anyway. */
static void pass_uncontended(uint64_t cost_ns) {
  uint64_t sum_ns = GS_PEEK(requested_ns) + cost_ns, sum_us = sum_ns / 1000;
  __atomic_store_n(&requested_ns, sum_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->requested_us, sum_us, __ATOMIC_RELAXED);
  __atomic_store_n(&gs_region.process->completed_us, sum_us, __ATOMIC_RELAXED);
}

static void start_timing(struct gs_stream *stream, struct gs_kernel_info *info, uint32_t due) {
  if (!due || GS_PEEK(gs_active_captures)) return; /* querying events may invalidate another thread's capture */
  gs_samples_settle(stream);
  if (due & GS_DUE_SAMPLE) gs_sample_begin(stream, info);
}

static CUstream begin_slow(struct gs_ticket *ticket, uint64_t cost_ns, uint32_t due, CUstream stream, bool per_thread) {
  refresh();
  bool uncontended = gs_is_uncontended();
  if (uncontended)
    pass_uncontended(cost_ns);
  else
    pass_gate(ticket->info, cost_ns);
  struct gs_stream *acquired = gs_stream_of(stream, per_thread);
  if (!acquired) return stream;
  gs_stream_acquire(acquired);
  if (!uncontended) gs_flight_launching(acquired, cost_ns); /* first: only work that counts as queued is paused */
  if (!uncontended) gs_yield_before(acquired, ticket->info, cost_ns);
  start_timing(acquired, ticket->info, due);
  ticket->captured = GS_UNCAPTURED;
  ticket->stream = acquired;
  return acquired->current;
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

/* The stream leaves its partition, which may be destroyed once the stream is unlocked. While something is captured no
 * stream is moved. */
bool gs_launch_unlock(struct gs_ticket *ticket, CUstream *stream) {
  struct gs_stream *acquired = ticket->stream;
  if (GS_PEEK(gs_active_captures)) return false;
  if (gs_stream_leave_partition(acquired)) gs_sample_moved(acquired);
  *stream = acquired->current;
  ticket->timed = acquired->sampling == GS_SAMPLE_BEGUN;
  if (ticket->timed) acquired->sampling = GS_SAMPLE_UNLOCKED; /* no other thread ends it */
  gs_stream_release(acquired);
  return true;
}

/* If the driver did not wait and another thread has moved the stream in between, later work must wait for this call. */
void gs_launch_relock(struct gs_ticket *ticket, CUstream given_to) {
  struct gs_stream *acquired = ticket->stream;
  gs_stream_lock(acquired);
  if (acquired->current != given_to && !GS_PEEK(gs_active_captures) &&
      (!gs_event_record(&acquired->order_event, CU_EVENT_DISABLE_TIMING, given_to) ||
       GS_CALL(cuStreamWaitEvent)(acquired->current, acquired->order_event, 0)))
    GS_CALL(cuStreamSynchronize)(given_to);
  if (ticket->timed && acquired->sampling == GS_SAMPLE_UNLOCKED) acquired->sampling = GS_SAMPLE_BEGUN;
}

CUresult gs_launch_finish(struct gs_ticket *ticket, CUresult result) {
  if (GS_UNLIKELY(ticket->captured)) return gs_detour_end(ticket, result);
  gs_sample_end(ticket->stream, result);
  if (ticket->stream->open) gs_flight_launched(ticket->stream);
  gs_stream_release(ticket->stream);
  return result;
}

/* Called by entry.c. */

/* Counts continue where the last process in this slot left them. */
void gs_gate_attached(void) {
  GS_STORE(requested_ns, 1000 * GS_LOAD(gs_region.process->requested_us));
  GS_STORE(gs_uncontended_epoch, GS_CONTENDED);
}

void gs_gate_forget(void) {
  pthread_mutex_init(&gate_lock, NULL);
  gs_neighbour_activity_forget();
  if (!requested_ns) return; /* the parent launched nothing, so there is no more to forget */
  gs_uncontended_epoch = GS_CONTENDED;
  requested_ns = seen_credit_us = squad_credit_us = 0;
  gs_streams_forget();
  gs_partitions_forget();
  gs_flight_forget();
  gs_yield_forget();
  gs_measure_forget();
}

void gs_gate_stop(void) {
  gs_yield_stop();
  gs_flight_stop_watcher();
}
