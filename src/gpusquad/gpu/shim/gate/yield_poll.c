/* How the keeper of the word passes the time between two looks: it naps, or it spins where naps end late.
 *
 * A virtual machine that shares its processors gets one back late once a thread of it has slept: milliseconds, many
 * times a second. For so long a yielding tenant does not see that whoever goes first has woken. A thread that never
 * sleeps keeps its processor, and costs all of it. So it is found out by how late the looks are, and again from time to
 * time; where spinning does not help either, as under a limit of processor time, nobody spins. */
#include "gate/yield_poll.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "region/region.h"

#define LATE_NS 100000u       /* what is less hardly matters beside a kernel */
#define WINDOW_NS 500000000u  /* looked out for so long, then it is judged */
#define TOO_BLIND 1000u       /* parts in a million of that time for which nobody looked */
#define SPIN_WINDOWS 20u      /* then a window of naps shows whether it is still needed */
#define USELESS_WINDOWS 120u  /* of naps after spinning was no better */
#define SPARE_PROCESSORS 4    /* with fewer, the program has more use for them */
#define SPIN_NS 3000u         /* one that spins looks more often: it costs the same */

static void judge_naps(struct gs_yield_poll *poll, uint64_t blind) {
  poll->nap_blind = blind;
  if (poll->windows_left) poll->windows_left--;
  if (poll->windows_left || !poll->may_spin || blind < TOO_BLIND) return;
  poll->spins = true;
  poll->windows_left = SPIN_WINDOWS;
}

static void judge_spinning(struct gs_yield_poll *poll, uint64_t blind) {
  bool helps = 2 * blind < poll->nap_blind;
  if (helps && --poll->windows_left) return;
  poll->spins = false;
  poll->windows_left = helps ? 0 : USELESS_WINDOWS;
}

void gs_yield_poll_record(struct gs_yield_poll *poll, uint64_t rested_ns, uint64_t wanted_ns) {
  uint64_t late_ns = rested_ns > wanted_ns ? rested_ns - wanted_ns : 0;
  poll->rested_ns += rested_ns;
  if (late_ns > LATE_NS) poll->blind_ns += late_ns;
  if (poll->rested_ns < WINDOW_NS) return;
  uint64_t blind = poll->blind_ns / (poll->rested_ns / 1000000);
  poll->rested_ns = poll->blind_ns = 0;
  if (poll->spins)
    judge_spinning(poll, blind);
  else
    judge_naps(poll, blind);
}

void gs_yield_poll_start(struct gs_yield_poll *poll) {
  const char *asked = getenv("GPUSQUAD_LOOKOUT");
  *poll = (struct gs_yield_poll){.may_spin = false};
  if (asked && strcmp(asked, "nap") == 0) return;
  poll->spins = poll->always = asked && strcmp(asked, "spin") == 0;
  poll->may_spin = gs_cpu_count() >= SPARE_PROCESSORS;
}

static void spin(uint64_t until_ns) {
  do {
    sched_yield(); /* to whoever of this machine wants the processor; the host is not asked */
  } while (gs_now_ns() < until_ns);
}

void gs_yield_poll_wait(struct gs_yield_poll *poll, uint64_t ns) {
  uint64_t start_ns = gs_now_ns();
  struct timespec shortly = {0, (long)ns};
  if (poll->spins)
    spin(start_ns + SPIN_NS);
  else
    nanosleep(&shortly, NULL);
  if (!poll->always) gs_yield_poll_record(poll, gs_now_ns() - start_ns, ns);
}
