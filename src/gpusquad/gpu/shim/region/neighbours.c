/* What the other clients of the card report in their own files. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region/region.h"

#define FIXED_NEIGHBOURS "/run/gpusquad/tenants" /* in containers */
#define HEAD_BYTES offsetof(struct gs_client, kernel) /* without the kernel table, which is most of the file */

struct neighbour {
  int fd;
  bool open;
  dev_t device; /* with the inode: a program may close all unknown descriptors, and the number may be reused */
  ino_t inode;
  uint32_t slot_generation; /* when it was opened: each client has a file of its own under the same name */
};

static struct neighbour neighbours[GS_SLOTS];

static bool is_same_file(const struct neighbour *one) {
  struct stat status;
  return gs_fstat(one->fd, &status) == 0 && status.st_dev == one->device && status.st_ino == one->inode;
}

static void close_neighbour(struct neighbour *neighbour) {
  if (neighbour->open && is_same_file(neighbour)) close(neighbour->fd);
  neighbour->open = false;
}

static int open_file(uint32_t slot) {
  char path[PATH_MAX];
  const char *own = gs_client_path();
  snprintf(path, sizeof path, "%.*s/%u", gs_folder_length(own), own, slot);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  snprintf(path, sizeof path, FIXED_NEIGHBOURS "/%u", slot);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static void open_neighbour(struct neighbour *neighbour, uint32_t slot) {
  struct stat status;
  neighbour->fd = open_file(slot);
  if (neighbour->fd < 0) return;
  neighbour->open = true;
  if (gs_fstat(neighbour->fd, &status) != 0) return;
  neighbour->device = status.st_dev;
  neighbour->inode = status.st_ino;
}

bool gs_neighbour_read(uint32_t slot, struct gs_process procs[GS_PROCS]) {
  static struct gs_client copy;
  if (slot >= GS_SLOTS || !gs_region.decisions) return false;
  struct neighbour *neighbour = &neighbours[slot];
  uint32_t slot_generation = GS_LOAD(gs_region.decisions->grants[slot].slot_generation);
  if (neighbour->open && neighbour->slot_generation != slot_generation) close_neighbour(neighbour);
  if (!neighbour->open) open_neighbour(neighbour, slot);
  neighbour->slot_generation = slot_generation;
  if (!neighbour->open) return false;
  if (pread(neighbour->fd, &copy, HEAD_BYTES, 0) != (ssize_t)HEAD_BYTES || !GS_IS_OURS(&copy) || copy.slot != slot) {
    close_neighbour(neighbour);
    return false;
  }
  memcpy(procs, copy.procs, sizeof copy.procs);
  return true;
}

bool gs_neighbour_is_alive(uint32_t slot, uint32_t index) {
  return !neighbours[slot].open || gs_byte_held(neighbours[slot].fd, index);
}

void gs_neighbours_forget(void) {
  for (uint32_t slot = 0; slot < GS_SLOTS; slot++) close_neighbour(&neighbours[slot]);
}
