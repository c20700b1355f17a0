/* Reports how long the program's requests took. Only the program knows when a request arrived. Any process of the
 * client may report, whether it uses the card or not; the card daemon reads the client's file. */
#include <pthread.h>

#include "shim.h"

static struct gs_region region; /* its own mapping: reporting takes no process slot */
static bool is_mapped;
static pthread_once_t map_once = PTHREAD_ONCE_INIT;

static void map_region(void) { is_mapped = gs_region_map(&region, gs_client_path()); }

GS_EXPORT void gpusquad_served(uint64_t us) {
  pthread_once(&map_once, map_region);
  if (!is_mapped || !us) return;
  struct gs_served *served = &region.client->served;
  uint64_t before = __atomic_fetch_add(&served->count, 1, __ATOMIC_ACQ_REL);
  GS_STORE(served->us[before % GS_SERVED], us < UINT32_MAX ? (uint32_t)us : UINT32_MAX);
}
