/* Which neighbours are busy, by their own reports, while they are alive. */
#include "gate/grant.h"
#include "locks.h"

#define CHECK_INTERVAL_NS 20000u

/* Neighbours' files are read into one buffer, so one thread reads at a time. The driver is not called with this lock
 * held: it may be blocking another thread that wants to check. */
static pthread_mutex_t activity_lock = PTHREAD_MUTEX_INITIALIZER;

static bool reports_work(const struct gs_process *process, uint64_t now_ns) {
  if (process->state != GS_LIVE) return false;
  uint64_t linger_ns = 1000ull * GS_PEEK(gs_region.grant->linger_us);
  return process->in_flight || process->waiting || now_ns - process->last_launch_ns < linger_ns ||
         now_ns - process->idle_since_ns < linger_ns;
}

/* The page of a killed process keeps its last report until its memory is reclaimed. */
static bool are_all_idle(uint32_t slot, const struct gs_process procs[GS_PROCS]) {
  uint64_t now_ns = gs_now_ns();
  for (uint32_t i = 0; i < GS_PROCS; i++)
    if (reports_work(&procs[i], now_ns) && gs_neighbour_is_alive(slot, i)) return false;
  return true;
}

/* A neighbour whose file cannot be read counts as busy. */
static bool is_neighbour_idle(uint32_t slot) {
  struct gs_process procs[GS_PROCS];
  if (GS_LOAD(gs_region.decisions->grants[slot].state) != GS_LIVE) return true;
  return gs_neighbour_read(slot, procs) && are_all_idle(slot, procs);
}

static bool check(uint64_t slots) {
  for (; slots; slots &= slots - 1)
    if (!is_neighbour_idle((uint32_t)__builtin_ctzll(slots))) return false;
  return true;
}

bool gs_neighbours_are_idle_now(uint64_t slots) {
  gs_lock(&activity_lock, GS_RANK_LEAF);
  bool idle = check(slots);
  gs_unlock(&activity_lock);
  return idle;
}

static uint64_t checked_ns;
static uint32_t were_idle;

bool gs_neighbours_are_idle(uint64_t slots) {
  uint64_t now_ns = gs_now_ns();
  if (now_ns - GS_PEEK(checked_ns) > CHECK_INTERVAL_NS && gs_try_lock(&activity_lock, GS_RANK_LEAF)) {
    GS_STORE(were_idle, check(slots));
    GS_STORE(checked_ns, now_ns);
    gs_unlock(&activity_lock);
  }
  return GS_LOAD(were_idle);
}

void gs_neighbour_activity_forget(void) {
  pthread_mutex_init(&activity_lock, NULL);
  checked_ns = 0;
}
