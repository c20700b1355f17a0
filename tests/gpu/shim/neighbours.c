/* A client process that reads its neighbours: for each slot on stdin it prints the pid of the first process. */
#include <stdarg.h>
#include <stdio.h>

#include "region/region.h"

void gs_log(const char *format, ...) { (void)format; }

int main(void) {
  unsigned int slot;
  struct gs_process procs[GS_PROCS];
  if (gs_region_attach(&gs_region) != GS_ATTACHED) return 1;
  while (scanf("%u", &slot) == 1) {
    if (gs_neighbour_read(slot, procs)) {
      printf("%u\n", procs[0].pid);
    } else {
      puts("none");
    }
    fflush(stdout);
  }
  return 0;
}
