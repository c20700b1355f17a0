/* The gate: launches wait here for credit.
 *
 * A hook describes its launch (struct gs_work), calls gs_launch_begin, then the driver with the stream that
 * gs_launch_begin returned, then gs_launch_end. A process is *uncontended* while it has no neighbours and its grant
 * restricts nothing: gs_launch_begin is then a count, a lookup and one comparison with the daemon's epoch, and returns
 * the caller's own stream. */
#ifndef GPUSQUAD_GATE_H
#define GPUSQUAD_GATE_H

#include "gate/grant.h"
#include "gate/in_flight.h"
#include "streams/streams.h"
#include "timing/timing.h"

/* gate.c */
CUstream gs_launch_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread);
CUresult gs_launch_finish(struct gs_ticket *ticket, CUresult result);
/* The driver refused the launch. True: try once more on `stream`. */
static inline bool gs_launch_retry(struct gs_ticket *ticket, CUstream *stream) {
  if (!ticket->stream || ticket->captured) return false; /* a refusal invalidates a capture */
  if (!gs_stream_leave_partition(ticket->stream)) return false;
  gs_sample_moved(ticket->stream);
  *stream = ticket->stream->current;
  return true;
}
static inline CUresult gs_launch_end(struct gs_ticket *ticket, CUresult result) {
  return GS_LIKELY(!ticket->stream) ? result : gs_launch_finish(ticket, result);
}
/* Around a driver call that may wait for the stream's earlier work: it is made without the stream's lock. */
bool gs_launch_unlock(struct gs_ticket *ticket, CUstream *stream); /* false: make the call with the lock held */
void gs_launch_relock(struct gs_ticket *ticket, CUstream given_to);
void gs_gate_report_completed(void); /* called by in_flight.c when the queue has shrunk */

/* yield.c: queued work pauses on the card while a client on the yield list is busy */
void gs_yield_before(struct gs_stream *stream, const struct gs_kernel_info *info, uint64_t cost_ns);
void gs_yield_context_ending(CUcontext context);
void gs_yield_suspend(void); /* nothing pauses until gs_yield_resume; calls nest */
void gs_yield_resume(void);
void gs_yield_stop(void);
void gs_yield_forget(void);

/* Called by entry.c. */
void gs_gate_attached(void); /* this process has become one of a client; gs_region is valid */
void gs_gate_forget(void);   /* in a forked child: forgets streams, contexts and threads. Async-signal-safe */
void gs_gate_stop(void);     /* the process exits */

#endif
