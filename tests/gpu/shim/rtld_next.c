/* A library that wraps a function of the C library, as sanitizers and profilers do: its RTLD_NEXT must stay its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>

pid_t getppid(void) {
  pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "getppid");
  if (next == getppid || !next) return -1;
  fputs("wrapped\n", stderr);
  return next();
}
