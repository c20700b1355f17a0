/* A client process that reserves and releases the whole quota as fast as it can; prints how often it succeeded. */
#include <stdio.h>
#include <stdlib.h>

#include "region/region.h"

void gs_log(const char *format, ...) { (void)format; }

int main(int count, char **arguments) {
  long rounds = count > 1 ? atol(arguments[1]) : 1, had = 0;
  if (gs_region_attach(&gs_region) != GS_ATTACHED) return 1;
  uint64_t quota_bytes = gs_region.grant->quota_bytes;
  for (long i = 0; i < rounds; i++) {
    if (!gs_bytes_reserve(&gs_region, quota_bytes, quota_bytes)) continue;
    gs_bytes_record_peak(&gs_region);
    had++;
    gs_bytes_release(&gs_region, quota_bytes);
  }
  printf("%ld\n", had);
  return 0;
}
