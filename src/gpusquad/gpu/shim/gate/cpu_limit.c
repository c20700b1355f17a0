/* The number of CPUs that this program may use. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gate/yield_poll.h"

/* Reads the first line of a file that starts with `prefix`, without its newline. */
static bool first_line(const char *path, const char *prefix, char *line, int size) {
  FILE *file = fopen(path, "re");
  bool found = false;
  while (file && !found && fgets(line, size, file)) found = strncmp(line, prefix, strlen(prefix)) == 0;
  if (file) fclose(file);
  if (found) line[strcspn(line, "\n")] = 0;
  return found;
}

static long number_at(const char **text) {
  long number = 0;
  for (; **text >= '0' && **text <= '9' && number < 100000000; (*text)++) number = 10 * number + (**text - '0');
  return number;
}

/* Reads the CPU time limit of the control group. Version 2 only: version 1 has no single place for it. */
int gs_cpu_count_in(const char *cgroup_of, const char *groups, int cpus) {
  char own[512], path[1024], limit[64];
  if (!first_line(cgroup_of, "0::/", own, sizeof own)) return cpus;
  snprintf(path, sizeof path, "%s%s/cpu.max", groups, own + 3);
  if (!first_line(path, "", limit, sizeof limit)) return cpus;
  const char *at = limit;
  bool is_limit = *at >= '0' && *at <= '9'; /* otherwise "max": no limit */
  long quota_us = number_at(&at);
  if (*at == ' ') at++;
  long period_us = number_at(&at);
  return is_limit && period_us && quota_us / period_us < cpus ? (int)(quota_us / period_us) : cpus;
}

int gs_cpu_count(void) {
  cpu_set_t ours;
  int count = sched_getaffinity(0, sizeof ours, &ours) ? 0 : CPU_COUNT(&ours);
  return gs_cpu_count_in("/proc/self/cgroup", "/sys/fs/cgroup", count);
}
