/* Launches an empty kernel again and again and prints how long that took: launches LIBRARY IMAGE KERNEL COUNT.
 *
 * The driver is found the way every program finds it, by dlopen and dlsym, so that a preloaded library stands between.
 * Two figures in nanoseconds a launch: without a pause (the card may be what limits it), and in bursts that its queue
 * holds, the wait for their end not counted (the host alone).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 256 };
typedef int (*launch_call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                           void **);

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *needed(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "%s is not in the driver\n", name);
    exit(2);
  }
  return found;
}

static void check(int code, const char *what) {
  if (code) {
    fprintf(stderr, "%s: error %d\n", what, code);
    exit(2);
  }
}

static char *read_all(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 65536);
  if (!file || !text || !fread(text, 1, 65535, file)) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(2);
  }
  fclose(file);
  return text;
}

int main(int count_of, char **words) {
  if (count_of != 5) return 2;
  void *driver = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  long count = atol(words[4]);
  int device = 0;
  void *context = NULL, *module = NULL, *kernel = NULL;
  check(((int (*)(unsigned))needed(driver, "cuInit"))(0), "cuInit");
  check(((int (*)(int *, int))needed(driver, "cuDeviceGet"))(&device, 0), "cuDeviceGet");
  check(((int (*)(void **, int))needed(driver, "cuDevicePrimaryCtxRetain"))(&context, device), "context");
  check(((int (*)(void *))needed(driver, "cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
  check(((int (*)(void **, const void *))needed(driver, "cuModuleLoadData"))(&module, read_all(words[2])), "module");
  check(((int (*)(void **, void *, const char *))needed(driver, "cuModuleGetFunction"))(&kernel, module, words[3]),
        "kernel");
  launch_call launch = (launch_call)needed(driver, "cuLaunchKernel");
  int (*synchronize)(void) = (int (*)(void))needed(driver, "cuCtxSynchronize");

  for (long i = 0; i < BURST; i++) check(launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch");
  check(synchronize(), "wait");
  uint64_t begun_ns = now_ns();
  for (long i = 0; i < count; i++) check(launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch");
  check(synchronize(), "wait");
  double sustained_ns = (double)(now_ns() - begun_ns) / (double)count;

  uint64_t spent_ns = 0;
  long launched = 0;
  while (launched < count) {
    begun_ns = now_ns();
    for (int i = 0; i < BURST; i++) launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    spent_ns += now_ns() - begun_ns;
    launched += BURST;
    check(synchronize(), "wait");
  }
  printf("{\"sustained_ns\": %.2f, \"burst_ns\": %.2f}\n", sustained_ns, (double)spent_ns / (double)launched);
  return 0;
}
