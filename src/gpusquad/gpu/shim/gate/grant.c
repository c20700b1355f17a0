/* The grant of this process's client, read from shared memory. The card daemon decides; nothing is decided here. */
#include "gate/grant.h"

#define DEFAULT_LOAN_US 2000u
#define DEFAULT_LOAN_WAIT_MAX_US 5000u
#define DEFAULT_YIELD_POINT_US 50u
#define DEFAULT_YIELD_MAX_MS 10000u

uint64_t gs_uncontended_epoch = GS_CONTENDED;

static const struct gs_grant *grant(void) { return gs_region.grant; }

static uint64_t others(uint64_t slots) { return slots & ~(1ull << gs_region.slot) & GS_ALL_SLOTS; }

static uint64_t other_neighbours(void) { return others(GS_PEEK(grant()->neighbours)); }

bool gs_grant_is_live(void) { return GS_LOAD(grant()->state) == GS_LIVE; }

bool gs_grant_has_neighbours(void) { return gs_grant_is_live() && other_neighbours(); }

static bool yields_to_us(uint32_t slot) {
  return GS_PEEK(gs_region.decisions->grants[slot].yield_to) >> gs_region.slot & 1;
}

/* If two clients are told to yield to each other, the lower slot runs first. Otherwise both would wait indefinitely. */
static uint64_t yield_to_slots(void) {
  uint64_t first = others(GS_PEEK(grant()->yield_to)), above = first & ~((2ull << gs_region.slot) - 1);
  for (; above; above &= above - 1)
    if (yields_to_us((uint32_t)__builtin_ctzll(above))) first &= ~(above & -above);
  return first;
}

bool gs_grant_may_yield(void) { return gs_grant_is_live() && yield_to_slots() && !gs_grant_is_exempt(); }

bool gs_grant_must_yield(void) {
  return gs_grant_may_yield() && gs_daemon_alive(gs_region.decisions) && !gs_neighbours_are_idle_now(yield_to_slots());
}

uint32_t gs_grant_priority_level(void) {
  uint32_t level = GS_PEEK(grant()->priority_level);
  if (GS_LIKELY(!level) || !gs_grant_has_neighbours() || !gs_daemon_alive(gs_region.decisions)) return 0;
  return level < GS_LEVELS ? level : GS_LEVELS;
}

bool gs_grant_is_alone(void) {
  if (!gs_grant_is_live()) return true;
  if (GS_PEEK(grant()->credit_us) != GS_UNGATED || other_neighbours() || gs_grant_may_yield()) return false;
  return !GS_PEEK(grant()->mask) && !GS_PEEK(grant()->virtual_card_mask);
}

uint64_t gs_client_requested_us(void) {
  uint64_t sum_us = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) sum_us += GS_PEEK(gs_region.client->procs[i].requested_us);
  return sum_us;
}

bool gs_grant_is_lent(void) {
  return (GS_PEEK(grant()->flags) & GS_LEND) && other_neighbours() && gs_neighbours_are_idle(other_neighbours());
}

uint64_t gs_grant_mask(void) {
  uint64_t mask = GS_PEEK(grant()->mask), until_us = GS_PEEK(grant()->restricted_us);
  if (!gs_grant_is_live()) return 0;
  if (!mask || (until_us && gs_client_requested_us() >= until_us)) return GS_PEEK(grant()->virtual_card_mask);
  if (gs_grant_is_lent() || !gs_daemon_alive(gs_region.decisions)) return GS_PEEK(grant()->virtual_card_mask);
  return mask;
}

uint64_t gs_grant_virtual_card_mask(void) { return gs_grant_is_live() ? GS_PEEK(grant()->virtual_card_mask) : 0; }

bool gs_grant_limits_queue(void) {
  return GS_PEEK(grant()->credit_us) != GS_UNGATED || (GS_PEEK(grant()->flags) & GS_LEND);
}

static uint64_t in_ns(uint32_t us, uint32_t default_us) { return 1000ull * (us ? us : default_us); }

uint64_t gs_grant_yield_point_ns(void) { return in_ns(GS_PEEK(grant()->yield_point_us), DEFAULT_YIELD_POINT_US); }

uint64_t gs_grant_yield_max_ns(void) { return 1000 * in_ns(GS_PEEK(grant()->yield_max_ms), DEFAULT_YIELD_MAX_MS); }

uint64_t gs_grant_loan_ns(void) {
  return GS_PEEK(grant()->flags) & GS_LEND ? in_ns(GS_PEEK(grant()->loan_us), DEFAULT_LOAN_US) : 0;
}

uint64_t gs_grant_loan_wait_max_ns(void) {
  return in_ns(GS_PEEK(grant()->loan_wait_max_us), DEFAULT_LOAN_WAIT_MAX_US);
}

bool gs_grant_is_exempt(void) { return GS_PEEK(gs_region.process->uses_collectives) && GS_PEEK(grant()->credit_us); }
