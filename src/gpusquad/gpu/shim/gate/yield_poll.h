/* How the yield thread waits between two checks: it sleeps or spins. Used by one thread. */
#ifndef GPUSQUAD_YIELD_POLL_H
#define GPUSQUAD_YIELD_POLL_H

#include <stdbool.h>
#include <stdint.h>

struct gs_yield_poll {
  bool may_spin, spins;
  bool fixed;                   /* set by the user: never evaluated */
  uint32_t windows_left;        /* until it may change */
  uint64_t waited_ns, late_ns;  /* of this window */
  uint64_t sleep_late_ppm;      /* of the last window of sleeps: late time in parts per million */
};

void gs_yield_poll_start(struct gs_yield_poll *poll);
void gs_yield_poll_wait(struct gs_yield_poll *poll, uint64_t ns); /* or less */
/* A wait took `waited_ns` where `wanted_ns` were requested. */
void gs_yield_poll_record(struct gs_yield_poll *poll, uint64_t waited_ns, uint64_t wanted_ns);

/* cpu_limit.c: CPUs that this program may use at once */
int gs_cpu_count(void);
/* At most `cpus`, limited by the program's control group; paths of /proc/self/cgroup and of the cgroup file system. */
int gs_cpu_count_in(const char *cgroup_of, const char *groups, int cpus);

#endif
