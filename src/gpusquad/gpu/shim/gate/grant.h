/* What the client's grant and its neighbours allow this process now. Reads shared memory; calls neither the driver nor
 * streams/ nor the gate, so that all of them can call it. */
#ifndef GPUSQUAD_GRANT_H
#define GPUSQUAD_GRANT_H

#include "shim.h"

/* grant.c */
extern uint64_t gs_uncontended_epoch; /* the daemon's epoch while uncontended; otherwise above every epoch */
static inline bool gs_is_uncontended(void) {
  return GS_PEEK(gs_region.decisions->epoch) == GS_PEEK(gs_uncontended_epoch);
}
#define GS_CONTENDED UINT64_MAX

bool gs_grant_is_live(void);
bool gs_grant_is_alone(void); /* no gate, no mask, no neighbours */
bool gs_grant_has_neighbours(void);
bool gs_grant_is_lent(void); /* the client may borrow and all neighbours are idle */
uint64_t gs_grant_mask(void);              /* SM groups that work goes to now; 0: unrestricted */
uint64_t gs_grant_virtual_card_mask(void); /* SM groups that no work may leave; 0: no virtual card */
uint32_t gs_grant_priority_level(void);    /* of work on no partition; 0: the priority that the program chose */
/* The process uses collectives and is not held, because its peers would spin. False without any credit: then the client
 * is about to be stopped, and its peers with it. */
bool gs_grant_is_exempt(void);
bool gs_grant_limits_queue(void); /* the client is gated or borrows, so the amount of queued work matters */
bool gs_grant_may_yield(void);    /* there are clients to yield to */
bool gs_grant_must_yield(void);   /* one of them is busy */
uint64_t gs_grant_yield_point_ns(void); /* queued work between two points where it can pause */
uint64_t gs_grant_yield_max_ns(void);   /* longest pause */
uint64_t gs_grant_loan_ns(void);        /* work that a borrower may have queued; 0: the client does not borrow */
uint64_t gs_grant_loan_wait_max_ns(void);
uint64_t gs_client_requested_us(void); /* of all processes of the client */

/* neighbour_activity.c: whether no client in these slots has work */
bool gs_neighbours_are_idle_now(uint64_t slots);
bool gs_neighbours_are_idle(uint64_t slots); /* up to 20 µs old; every call must pass the same slots */
void gs_neighbour_activity_forget(void);

#endif
