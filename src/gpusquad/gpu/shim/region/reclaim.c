/* Reclaims the bytes of dead processes, for the card daemon. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

/* The daemon is not a process of the client. As a holder of the lock it has the index after theirs, and that byte. */
static int64_t reclaim_for_daemon(const char *path) {
  struct gs_region region = {.fd = open(path, O_RDWR | O_CLOEXEC), .index = GS_PROCS};
  if (region.fd < 0) return -1;
  region.client = gs_map_file(region.fd, PROT_READ | PROT_WRITE, sizeof *region.client);
  if (!region.client || !GS_IS_OURS(region.client)) return -1;
  return gs_byte_take(region.fd, GS_PROCS) ? (int64_t)gs_region_reclaim(&region) : 0;
}

/* Returns the bytes; -1: not a client's file of this version. Runs in a child process, because a client may truncate
 * its file at any moment and an access to the mapping is then fatal. */
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
