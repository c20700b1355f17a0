/* The gate: a caller that brings work waits here until the daemon's credits cover it. No policy: credits, masks and
 * mates are decided elsewhere and read from shared memory. Nothing is deferred or reordered; the caller waits. */
#include "gate.h"

#define NOT_QUIET UINT64_MAX
#define NAP_NS 100000u           /* at the gate: how soon an idle mate is noticed */
#define LOAN_NS 2000000u         /* of what is borrowed at most so much is queued, so that it can be given back soon */
#define LOAN_PATIENCE_NS 5000000u /* a borrower whose queue does not move may be waiting for this very launch */
#define MATES_EVERY_NS 20000u

uint64_t gs_quiet_epoch = NOT_QUIET;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t asked_ns;                /* of this process; asked_us in the region follows it */
static uint64_t seen_credit_us, squad_us; /* the last credit seen, and what it came to beyond what was asked for */

static const struct gs_grant *grant(void) { return gs_region.grant; }

static uint64_t other_mates(void) { return GS_PEEK(grant()->mates) & ~(1ull << gs_region.slot); }

bool gs_gate_has_mates(void) { return GS_LOAD(grant()->state) == GS_LIVE && other_mates(); }

bool gs_gate_alone(void) {
  if (GS_LOAD(grant()->state) != GS_LIVE) return true;
  return GS_PEEK(grant()->credit_us) == GS_UNGATED && !GS_PEEK(grant()->mask) && !other_mates();
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

/* Mates. */

static bool tenant_idle(const struct gs_tenant *tenant) {
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    const struct gs_process *process = &tenant->procs[i];
    if (GS_LOAD(process->state) == GS_LIVE && (GS_LOAD(process->in_flight) || GS_LOAD(process->waiting))) return false;
  }
  return true;
}

/* A mate that cannot be seen is taken to be busy. */
static bool mate_idle(uint32_t slot) {
  if (GS_LOAD(gs_region.decisions->grants[slot].state) != GS_LIVE) return true;
  const struct gs_tenant *tenant = gs_mate(slot);
  return tenant && tenant_idle(tenant);
}

static bool mates_idle_now(void) {
  for (uint64_t mates = other_mates(); mates; mates &= mates - 1)
    if (!mate_idle((uint32_t)__builtin_ctzll(mates))) return false;
  return true;
}

static bool mates_idle(void) {
  static uint64_t looked_ns;
  static uint32_t answer;
  uint64_t now_ns = gs_now_ns();
  if (now_ns - GS_PEEK(looked_ns) > MATES_EVERY_NS) {
    GS_STORE(answer, mates_idle_now());
    GS_STORE(looked_ns, now_ns);
  }
  return GS_LOAD(answer);
}

static bool lent(void) { return (GS_PEEK(grant()->flags) & GS_LEND) && other_mates() && mates_idle(); }

uint64_t gs_gate_mask(void) {
  uint64_t mask = GS_PEEK(grant()->mask), until_us = GS_PEEK(grant()->restricted_us);
  if (!mask || GS_LOAD(grant()->state) != GS_LIVE) return 0;
  if (until_us && tenant_asked_us() >= until_us) return 0;
  if (lent() || !gs_daemon_alive(gs_region.decisions)) return 0;
  return mask;
}

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

static bool loan_allows(uint64_t cost_ns, uint64_t waited_ns) {
  uint64_t queued_ns = gs_flight_ns();
  return !queued_ns || queued_ns + cost_ns <= LOAN_NS || waited_ns >= LOAN_PATIENCE_NS;
}

static bool may_pass(uint64_t cost_ns, uint64_t waited_ns) {
  bool masked_only = GS_PEEK(grant()->credit_us) == GS_UNGATED && GS_PEEK(grant()->mask);
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

static void wait_at_gate(uint64_t cost_ns) {
  struct gs_process *process = gs_region.process;
  uint64_t began_ns = gs_now_ns();
  GS_ADD(process->waits, 1);
  GS_ADD(process->waiting, 1);
  for (;;) {
    uint32_t epoch = GS_LOAD(gs_region.decisions->epoch);
    if (try_pass(cost_ns, gs_now_ns() - began_ns)) break;
    gs_futex_wait(&gs_region.decisions->epoch, epoch, NAP_NS);
  }
  GS_ADD(process->waited_ns, gs_now_ns() - began_ns);
  GS_SUB(process->waiting, 1);
}

static void pass_gate(const struct gs_learned *learned, uint64_t cost_ns) {
  if (learned->collective)
    charge(cost_ns); /* its peers spin: it goes now, and later launches pay for it */
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

static void pass_quietly(uint64_t cost_ns) {
  charge(cost_ns);
  gs_gate_tell_done();
}

static void measure_on(struct gs_stream *stream, struct gs_learned *learned, uint32_t due) {
  if (GS_PEEK(gs_captures)) return; /* asking for events may break another thread's capture */
  gs_flight_settle(stream);
  gs_measure_settle(stream);
  if (due & GS_DUE_SAMPLE) gs_measure_begin(stream, learned);
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
  CUstream real = gs_stream_take(taken);
  measure_on(taken, ticket->learned, due);
  if (!quiet) gs_flight_launching(taken, cost_ns);
  ticket->stream = taken;
  return real;
}

CUstream gs_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread) {
  ticket->stream = NULL;
  if (!gs_attached()) return stream;
  if (GS_UNLIKELY(GS_PEEK(gs_captures)) && gs_capturing(stream, per_thread)) return stream;
  uint32_t due;
  ticket->learned = gs_measure_note(work, &due);
  uint64_t cost_ns = gs_measure_cost_ns(ticket->learned, work);
  if (GS_UNLIKELY(due || !gs_quiet())) return begin_with_care(ticket, cost_ns, due, stream, per_thread);
  pass_quietly(cost_ns);
  return stream;
}

CUresult gs_finish(struct gs_ticket *ticket, CUresult result) {
  gs_measure_end(ticket->stream, result);
  if (ticket->stream->open) gs_flight_launched(ticket->stream);
  gs_stream_release(ticket->stream);
  return result;
}

/* Called by entry.c. */

void gs_gate_attached(void) { GS_STORE(gs_quiet_epoch, NOT_QUIET); }

void gs_gate_forget(void) {
  if (!asked_ns) return; /* the parent launched nothing: there is nothing to forget */
  gs_quiet_epoch = NOT_QUIET;
  asked_ns = seen_credit_us = squad_us = 0;
  pthread_mutex_init(&gate_lock, NULL);
  gs_streams_forget();
  gs_partitions_forget();
  gs_flight_forget();
  gs_measure_forget();
}
