/* How late a thread that naps for 20 us looks again, beside one that never sleeps: naps SECONDS.
 *
 * Both at once, so that they see the same machine. Of each: how often it looked, for how many millionths of the time it
 * was more than 100 us late, and the longest pause. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { NAP_NS = 20000, LATE_NS = 100000 };

struct thread {
  const char *name;
  int spins;
  uint64_t until_ns, looks, late_ns, longest_ns;
  pthread_t handle;
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_once(const struct thread *thread) {
  struct timespec nap = {0, NAP_NS};
  if (thread->spins)
    sched_yield();
  else
    nanosleep(&nap, NULL);
}

static void *look_out(void *given) {
  struct thread *thread = given;
  prctl(PR_SET_TIMERSLACK, 1000ul);
  for (uint64_t last_ns = now_ns(); last_ns < thread->until_ns; thread->looks++) {
    pause_once(thread);
    uint64_t now = now_ns(), away_ns = now - last_ns;
    if (away_ns > NAP_NS + LATE_NS) thread->late_ns += away_ns - NAP_NS;
    if (away_ns > thread->longest_ns) thread->longest_ns = away_ns;
    last_ns = now;
  }
  return NULL;
}

int main(int count, char **words) {
  double seconds = count > 1 ? atof(words[1]) : 1.0;
  uint64_t until_ns = now_ns() + (uint64_t)(seconds * 1e9);
  struct thread threads[] = {{.name = "nap", .until_ns = until_ns}, {.name = "spin", .spins = 1, .until_ns = until_ns}};
  for (int i = 0; i < 2; i++) {
    if (pthread_create(&threads[i].handle, NULL, look_out, &threads[i])) return 1;
  }
  for (int i = 0; i < 2; i++) {
    struct thread *one = &threads[i];
    pthread_join(one->handle, NULL);
    printf("%s\"%s\": {\"looks\": %llu, \"late_ppm\": %.0f, \"longest_us\": %.0f}%s", i ? ", " : "{", one->name,
           (unsigned long long)one->looks, (double)one->late_ns / seconds / 1e3, (double)one->longest_ns / 1e3,
           i ? "}\n" : "");
  }
  return 0;
}
