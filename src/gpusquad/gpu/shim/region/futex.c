/* System calls that the C library does not wrap in all its versions: futexes, fstat; and the clock. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "region/region.h"

#define NS_PER_S 1000000000ull

uint64_t gs_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void gs_futex_wait(const uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S), .tv_nsec = (long)(timeout_ns % NS_PER_S)};
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
  errno = saved;
}

void gs_futex_wake(uint32_t *word, int waiters) {
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAKE, waiters, NULL, NULL, 0);
  errno = saved;
}

bool gs_daemon_alive(const struct gs_decisions *decisions) {
  uint64_t limit_ns = (uint64_t)GS_PEEK(decisions->fail_open_ms) * 1000000ull;
  uint64_t beat_ns = GS_LOAD(decisions->heartbeat_ns);
  uint64_t now_ns = gs_now_ns();
  return limit_ns == 0 || now_ns <= beat_ns || now_ns - beat_ns <= limit_ns;
}

/* On 64-bit machines the kernel and the C library have the same structure. */
int gs_fstat(int fd, struct stat *status) { return (int)syscall(SYS_fstat, fd, status); }
