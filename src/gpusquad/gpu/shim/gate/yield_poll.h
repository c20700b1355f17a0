/* How a thread that must look often passes the time between two looks. One thread uses it. */
#ifndef GPUSQUAD_YIELD_POLL_H
#define GPUSQUAD_YIELD_POLL_H

#include <stdbool.h>
#include <stdint.h>

struct gs_yield_poll {
  bool may_spin, spins;
  bool always;          /* it was asked for: nothing is judged */
  uint32_t windows_left; /* until it is judged anew */
  uint64_t rested_ns, blind_ns; /* of this window */
  uint64_t nap_blind;   /* the last window of naps: parts in a million for which nobody looked */
};

void gs_yield_poll_start(struct gs_yield_poll *poll);
void gs_yield_poll_wait(struct gs_yield_poll *poll, uint64_t ns); /* or less */
/* It took `rested_ns` where `wanted_ns` were asked for. */
void gs_yield_poll_record(struct gs_yield_poll *poll, uint64_t rested_ns, uint64_t wanted_ns);
/* processors.c */
int gs_cpu_count(void); /* that this program may use at once */
/* Of so many processors, those that a program's control group lets it use; by the files given. */
int gs_cpu_count_in(const char *cgroup_of, const char *groups, int processors);

#endif
