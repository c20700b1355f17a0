/* The yield thread sleeps between two checks, or spins where sleeps end late.
 *
 * A virtual machine on shared CPUs may get a CPU back milliseconds late after a thread has slept, many times a second.
 * In that time a yielding client does not notice that the client it yields to has work again. A thread that never
 * sleeps keeps its CPU and uses all of it. So the thread measures how late its checks are, and again from time to time.
 * If spinning does not help either, as under a CPU time limit, it does not spin. */
#include "gate/yield_poll.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim.h"

#define LATE_NS 100000u      /* a shorter delay hardly matters beside a kernel */
#define WINDOW_NS 500000000u /* waiting time after which the delays are evaluated */
#define TOO_LATE_PPM 1000u   /* parts per million of that time */
#define SPIN_WINDOWS 20u     /* then one window of sleeps shows whether spinning is still needed */
#define USELESS_WINDOWS 120u /* of sleeps after spinning did not help */
#define MIN_CPUS 4           /* with fewer, the program needs them itself */
#define SPIN_NS 3000u        /* shorter than a sleep: spinning costs the same */

static void evaluate_sleeps(struct gs_yield_poll *poll, uint64_t late_ppm) {
  poll->sleep_late_ppm = late_ppm;
  if (poll->windows_left) poll->windows_left--;
  if (poll->windows_left || !poll->may_spin || late_ppm < TOO_LATE_PPM) return;
  poll->spins = true;
  poll->windows_left = SPIN_WINDOWS;
}

static void evaluate_spinning(struct gs_yield_poll *poll, uint64_t late_ppm) {
  bool helps = 2 * late_ppm < poll->sleep_late_ppm;
  if (helps && --poll->windows_left) return;
  poll->spins = false;
  poll->windows_left = helps ? 0 : USELESS_WINDOWS;
}

void gs_yield_poll_record(struct gs_yield_poll *poll, uint64_t waited_ns, uint64_t wanted_ns) {
  uint64_t late_ns = waited_ns > wanted_ns ? waited_ns - wanted_ns : 0;
  poll->waited_ns += waited_ns;
  if (late_ns > LATE_NS) poll->late_ns += late_ns;
  if (poll->waited_ns < WINDOW_NS) return;
  uint64_t late_ppm = poll->late_ns / (poll->waited_ns / 1000000);
  poll->waited_ns = poll->late_ns = 0;
  if (poll->spins)
    evaluate_spinning(poll, late_ppm);
  else
    evaluate_sleeps(poll, late_ppm);
}

static bool is_one_of(const char *value, const char *name, const char *old_name) {
  return value && (strcmp(value, name) == 0 || strcmp(value, old_name) == 0);
}

/* GPUSQUAD_LOOKOUT=nap|spin is the deprecated name of GPUSQUAD_YIELD_WAIT=sleep|spin. */
static const char *chosen_wait(void) {
  const char *chosen = getenv("GPUSQUAD_YIELD_WAIT");
  if (chosen && *chosen) return chosen;
  const char *deprecated = getenv("GPUSQUAD_LOOKOUT");
  if (deprecated) gs_log("GPUSQUAD_LOOKOUT is deprecated: use GPUSQUAD_YIELD_WAIT=sleep or spin");
  return deprecated;
}

void gs_yield_poll_start(struct gs_yield_poll *poll) {
  const char *chosen = chosen_wait();
  *poll = (struct gs_yield_poll){.may_spin = false};
  if (is_one_of(chosen, "sleep", "nap")) return;
  poll->spins = poll->fixed = is_one_of(chosen, "spin", "spin");
  poll->may_spin = gs_cpu_count() >= MIN_CPUS;
}

static void spin(uint64_t until_ns) {
  do {
    sched_yield(); /* to other threads of this machine; a hypervisor does not take the CPU */
  } while (gs_now_ns() < until_ns);
}

void gs_yield_poll_wait(struct gs_yield_poll *poll, uint64_t ns) {
  uint64_t start_ns = gs_now_ns();
  struct timespec duration = {0, (long)ns};
  if (poll->spins)
    spin(start_ns + SPIN_NS);
  else
    nanosleep(&duration, NULL);
  if (!poll->fixed) gs_yield_poll_record(poll, gs_now_ns() - start_ns, ns);
}
