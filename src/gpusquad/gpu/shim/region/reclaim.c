/* Giving back what the dead held, for the card's daemon. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

/* For the daemon, which is none of the tenant's processes: it has the byte, and the place as a holder of the lock,
 * after theirs. */
static int64_t reclaim_for_daemon(const char *path) {
  struct gs_region region = {.fd = open(path, O_RDWR | O_CLOEXEC), .index = GS_PROCS};
  if (region.fd < 0) return -1;
  region.client = gs_map_file(region.fd, PROT_READ | PROT_WRITE, sizeof *region.client);
  if (!region.client || !GS_IS_OURS(region.client)) return -1;
  return gs_byte_take(region.fd, GS_PROCS) ? (int64_t)gs_region_reclaim(&region) : 0;
}

/* Bytes given back; -1: not a tenant's file of ours. In a child, because a tenant may shorten its file at any moment,
 * and whoever then touches the mapping dies. */
GS_EXPORT int64_t gpusquad_reclaim(const char *path) {
  int ends[2], status;
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    int64_t bytes = reclaim_for_daemon(path);
    _exit(write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  close(ends[1]);
  int64_t bytes = -1;
  if (child < 0 || read(ends[0], &bytes, sizeof bytes) != sizeof bytes) bytes = -1;
  close(ends[0]);
  if (child > 0) waitpid(child, &status, 0);
  return bytes;
}
