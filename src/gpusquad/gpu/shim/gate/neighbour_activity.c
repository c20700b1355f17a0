/* Which mates are busy: as they tell it, for as long as they live. */
#include "gate/gate.h"

#define CHECK_INTERVAL_NS 20000u

/* One thread at a time: there is one place to read their files to. Nothing is asked of the driver meanwhile, which may
 * be holding whoever else wants to look. */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

static bool says_busy(const struct gs_process *process, uint64_t now_ns) {
  if (process->state != GS_LIVE) return false;
  uint64_t linger_ns = 1000ull * GS_PEEK(gs_region.grant->linger_us);
  return process->in_flight || process->waiting || now_ns - process->last_launch_ns < linger_ns ||
         now_ns - process->idle_since_ns < linger_ns;
}

/* One that was killed says for ever what it said last, or until somebody gives back what it held. */
static bool all_idle(uint32_t slot, const struct gs_process procs[GS_PROCS]) {
  uint64_t now_ns = gs_now_ns();
  for (uint32_t i = 0; i < GS_PROCS; i++)
    if (says_busy(&procs[i], now_ns) && gs_neighbour_is_alive(slot, i)) return false;
  return true;
}

/* A mate that cannot be seen is taken to be busy. */
static bool is_neighbour_idle(uint32_t slot) {
  struct gs_process procs[GS_PROCS];
  if (GS_LOAD(gs_region.decisions->grants[slot].state) != GS_LIVE) return true;
  return gs_neighbour_read(slot, procs) && all_idle(slot, procs);
}

static bool look(uint64_t neighbours) {
  for (; neighbours; neighbours &= neighbours - 1)
    if (!is_neighbour_idle((uint32_t)__builtin_ctzll(neighbours))) return false;
  return true;
}

bool gs_neighbours_are_idle_now(uint64_t neighbours) {
  pthread_mutex_lock(&looking);
  bool idle = look(neighbours);
  pthread_mutex_unlock(&looking);
  return idle;
}

/* Looked at rarely; others take the last word. */
static uint64_t looked_ns;
static uint32_t were_idle;

bool gs_neighbours_are_idle(uint64_t neighbours) {
  uint64_t now_ns = gs_now_ns();
  if (now_ns - GS_PEEK(looked_ns) > CHECK_INTERVAL_NS && pthread_mutex_trylock(&looking) == 0) {
    GS_STORE(were_idle, look(neighbours));
    GS_STORE(looked_ns, now_ns);
    pthread_mutex_unlock(&looking);
  }
  return GS_LOAD(were_idle);
}

void gs_neighbour_activity_forget(void) {
  pthread_mutex_init(&looking, NULL);
  looked_ns = 0;
}
