/* What other tenants of the card are doing, as they tell it in their own files. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"

#define FIXED_MATES "/run/gpusquad/tenants" /* where containers find them */
#define HEAD_BYTES offsetof(struct gs_tenant, kernel) /* without the kernels, which fill most of the file */

struct mate {
  int fd;
  bool open;
  dev_t device; /* and */
  ino_t inode;  /* of the file it was opened as: a program may close all files that it does not know, and open others */
  uint32_t tenancy; /* of the slot at that time: each tenant has a file of its own under the same name */
};

static struct mate mates[GS_SLOTS];

static bool is_still_it(const struct mate *mate) {
  struct stat status;
  return gs_fstat(mate->fd, &status) == 0 && status.st_dev == mate->device && status.st_ino == mate->inode;
}

static void close_mate(struct mate *mate) {
  if (mate->open && is_still_it(mate)) close(mate->fd);
  mate->open = false;
}

static int open_file(uint32_t slot) {
  char path[PATH_MAX];
  const char *own = gs_tenant_path();
  snprintf(path, sizeof path, "%.*s/%u", gs_folder_length(own), own, slot);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  snprintf(path, sizeof path, FIXED_MATES "/%u", slot);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static void open_mate(struct mate *mate, uint32_t slot) {
  struct stat status;
  mate->fd = open_file(slot);
  if (mate->fd < 0) return;
  mate->open = true;
  if (gs_fstat(mate->fd, &status) != 0) return;
  mate->device = status.st_dev;
  mate->inode = status.st_ino;
}

bool gs_mate_read(uint32_t slot, struct gs_process procs[GS_PROCS]) {
  static struct gs_tenant told;
  if (slot >= GS_SLOTS || !gs_region.decisions) return false;
  struct mate *mate = &mates[slot];
  uint32_t tenancy = GS_LOAD(gs_region.decisions->grants[slot].tenancy);
  if (mate->open && mate->tenancy != tenancy) close_mate(mate);
  if (!mate->open) open_mate(mate, slot);
  mate->tenancy = tenancy;
  if (!mate->open) return false;
  if (pread(mate->fd, &told, HEAD_BYTES, 0) != (ssize_t)HEAD_BYTES || !GS_IS_OURS(&told) || told.slot != slot) {
    close_mate(mate);
    return false;
  }
  memcpy(procs, told.procs, sizeof told.procs);
  return true;
}

bool gs_mate_lives(uint32_t slot, uint32_t index) {
  return !mates[slot].open || gs_byte_held(mates[slot].fd, index);
}

void gs_mates_forget(void) {
  for (uint32_t slot = 0; slot < GS_SLOTS; slot++) close_mate(&mates[slot]);
}
