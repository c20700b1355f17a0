/* Finds and maps the files of the region. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

#define FIXED_CLIENT "/run/gpusquad/tenant" /* in containers, independent of the environment */
#define OPEN_TRIES 10

void *gs_map_file(int fd, int protection, size_t size) {
  struct stat status;
  if (gs_fstat(fd, &status) != 0 || (size_t)status.st_size < size) return NULL;
  void *mapped = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
  return mapped == MAP_FAILED ? NULL : mapped;
}

static void *map_path(const char *path, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *mapped = gs_map_file(fd, PROT_READ, size);
  close(fd);
  return mapped;
}

const char *gs_client_path(void) {
  if (access(FIXED_CLIENT, F_OK) == 0) return FIXED_CLIENT; /* a container must not choose its own */
  const char *path = getenv("GPUSQUAD_TENANT");
  return path && *path ? path : FIXED_CLIENT;
}

int gs_folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (int)(slash - path) : 0;
}

/* In a container beside the client's file; outside beside its folder. */
static const struct gs_decisions *map_decisions(const char *client) {
  const char *forms[] = {"%.*s/decisions", "%.*s/../decisions"};
  for (size_t i = 0; i < 2; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, forms[i], gs_folder_length(client), client);
    const struct gs_decisions *decisions = map_path(path, sizeof *decisions);
    if (decisions) return decisions;
  }
  return NULL;
}

static bool same_file(int one, int other) {
  struct stat first, second;
  if (gs_fstat(one, &first) != 0 || gs_fstat(other, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

static bool try_open(struct gs_region *region, const char *path) {
  region->fd = open(path, O_RDWR | O_CLOEXEC);
  int mapped = region->fd < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
  bool same = mapped >= 0 && same_file(region->fd, mapped);
  if (same) region->client = gs_map_file(mapped, PROT_READ | PROT_WRITE, sizeof *region->client);
  if (mapped >= 0) close(mapped);
  return same;
}

/* Opens the file twice: for the lock and for the mapping. A mapping keeps its open file and thereby the file's locks.
 * Mappings may outlive their process: an open driver file keeps the memory of the process that opened it, and forked
 * children share that file. Repeats if the slot was given to another client in between. */
static bool open_client(struct gs_region *region, const char *path) {
  for (int tries = 0; tries < OPEN_TRIES; tries++) {
    if (try_open(region, path)) return true;
    if (region->fd < 0) return false;
    close(region->fd);
    region->fd = -1;
  }
  return false;
}

bool gs_region_map(struct gs_region *region, const char *path) {
  if (!open_client(region, path)) {
    gs_log("no region at %s (%s): this process runs without quota and share", path, strerror(errno));
    return false;
  }
  region->decisions = map_decisions(path);
  if (!region->client || !region->decisions || !GS_IS_OURS(region->client) || !GS_IS_OURS(region->decisions) ||
      region->client->slot >= GS_SLOTS) {
    gs_log("the region at %s is not of version %u: this process runs without quota and share", path, GS_VERSION);
    return false;
  }
  region->slot = region->client->slot;
  region->grant = &region->decisions->grants[region->slot];
  return true;
}
