/* The length of an iteration. The launches of a program that loops repeat, so its sequence of launches shows its
 * progress. */
#include <string.h>

#include "locks.h"
#include "timing/timing.h"

#define HISTORY 16384u /* launches kept; a power of two. Iterations of up to half of that are found */
#define CHECK_INTERVAL 1024u
#define FIRST_CHECK 64u
#define MIN_WINDOW 64u
#define TAIL 8u        /* launches that must repeat before a length is tried */
#define CANDIDATES 64u
#define LAUNCHES_PER_STRAY 50u     /* one in this many launches may differ between iterations */

static uint32_t history[HISTORY];
static pthread_mutex_t iterations_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint32_t period; /* launches; 0: none found */
  uint64_t launch, ns; /* at the last check */
  uint64_t spare;  /* launches since the last whole iteration */
} progress;

static inline uint32_t at(uint64_t launch) { return GS_PEEK(history[launch & (HISTORY - 1)]); }

/* Whether the `window` launches before `end` repeat those one period earlier, but for a few strays. */
static bool repeats(uint64_t end, uint32_t period, uint64_t window) {
  uint64_t strays = window / LAUNCHES_PER_STRAY;
  for (uint64_t i = end - window; i < end; i++)
    if (at(i) != at(i - period) && strays-- == 0) return false;
  return true;
}

static uint64_t window_for(uint32_t period, uint64_t known) {
  uint64_t window = 3ull * period;
  if (window < MIN_WINDOW) window = MIN_WINDOW;
  if (window < known / 2) window = known / 2;
  return window + period <= known ? window : known - period;
}

static bool tail_repeats(uint64_t end, uint32_t period) {
  for (uint32_t i = 1; i <= TAIL; i++)
    if (at(end - i) != at(end - i - period)) return false;
  return true;
}

/* The shortest length after which the launches repeat; 0: none. */
static uint32_t find_period(uint64_t end) {
  uint64_t known = end < HISTORY ? end : HISTORY;
  uint32_t tried = 0;
  for (uint32_t period = 1; period <= known / 2 - TAIL && tried < CANDIDATES; period++) {
    if (!tail_repeats(end, period)) continue;
    tried++;
    uint64_t window = window_for(period, known);
    if (window >= period && repeats(end, period, window)) return period;
  }
  return 0;
}

static void report_progress(uint64_t launches, uint64_t ns) {
  struct gs_process *process = gs_region.process;
  uint64_t whole = (progress.spare + launches) / progress.period;
  progress.spare = (progress.spare + launches) % progress.period;
  GS_STORE(process->iterations, GS_PEEK(process->iterations) + whole);
  GS_STORE(process->period_us, progress.period * ns / launches / 1000);
}

static void check_iterations(uint64_t end) {
  if (!gs_try_lock(&iterations_lock, GS_RANK_LEAF)) return;
  uint64_t now_ns = gs_now_ns(), launches = end - progress.launch;
  if (end > progress.launch) {
    bool same = progress.period && launches + progress.period <= HISTORY && repeats(end, progress.period, launches);
    if (!same) {
      progress.period = find_period(end);
      progress.spare = 0;
      if (!progress.period) GS_STORE(gs_region.process->period_us, 0);
    }
    if (progress.period) report_progress(launches, now_ns - progress.ns);
    progress.launch = end;
    progress.ns = now_ns;
  }
  gs_unlock(&iterations_lock);
}

/* At powers of two first, so that short programs are covered too, then every CHECK_INTERVAL launches. */
static bool is_check_due(uint64_t launch) {
  bool power_of_two = (launch & (launch - 1)) == 0;
  return (launch & (CHECK_INTERVAL - 1)) == 0 || (launch < CHECK_INTERVAL && launch >= FIRST_CHECK && power_of_two);
}

void gs_iterations_add_launch(uint64_t launch, uint64_t key) {
  __atomic_store_n(&history[launch & (HISTORY - 1)], (uint32_t)(key >> 16), __ATOMIC_RELAXED);
  if (GS_UNLIKELY(is_check_due(launch + 1))) check_iterations(launch + 1);
}

void gs_iterations_forget(void) { memset(&progress, 0, sizeof progress); }
