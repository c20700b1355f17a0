/* The region of shared memory: finding it, a slot in it, and byte counts that survive the death of anybody. */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define FIXED_TENANT "/run/gpusquad/tenant" /* where containers find theirs, whatever a shell did to the environment */
#define FIXED_MATES "/run/gpusquad/tenants"
#define HOLDER_CHECK_NS 5000000ull /* how long to sleep before asking whether the holder of the lock has died */
#define NS_PER_S 1000000000ull
#define SPINS 200
#define SLOT_ROUNDS 3
#define DAEMON_TRIES (SPINS + 10)

struct gs_region gs_region = {.fd = -1};

/* Time and waiting. */

uint64_t gs_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void gs_futex_wait(const uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S), .tv_nsec = (long)(timeout_ns % NS_PER_S)};
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
  errno = saved;
}

void gs_futex_wake(uint32_t *word, int waiters) {
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAKE, waiters, NULL, NULL, 0);
  errno = saved;
}

bool gs_daemon_alive(const struct gs_decisions *decisions) {
  uint64_t limit_ns = (uint64_t)GS_PEEK(decisions->fail_open_ms) * 1000000ull;
  uint64_t beat_ns = GS_LOAD(decisions->heartbeat_ns);
  uint64_t now_ns = gs_now_ns();
  return limit_ns == 0 || now_ns <= beat_ns || now_ns - beat_ns <= limit_ns;
}

/* A process is alive while it holds the OFD lock on the byte of its index: the kernel lets go of it however it dies. */

static int byte_lock(int fd, int command, short type, uint32_t index, short *found) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
  int answer = fcntl(fd, command, &lock);
  if (found) *found = lock.l_type;
  return answer;
}

static bool take_byte(int fd, uint32_t index) { return byte_lock(fd, F_OFD_SETLK, F_WRLCK, index, NULL) == 0; }

static void let_go_of_byte(int fd, uint32_t index) { byte_lock(fd, F_OFD_SETLK, F_UNLCK, index, NULL); }

static bool somebody_holds_byte(int fd, uint32_t index) {
  short found = F_UNLCK;
  return byte_lock(fd, F_OFD_GETLK, F_WRLCK, index, &found) != 0 || found != F_UNLCK;
}

/* The lock of the byte counts. Its word: 1 + index of the holder in the low byte (0: free); in the middle how often it
 * was taken, so that a word seen before is not mistaken for one seen now; the top bit while somebody may sleep. */

#define HOLDER(word) ((word) & 0xffu)
#define TAKEN_ONCE 0x100u
#define SLEEPERS 0x80000000u

static uint32_t next_word(uint32_t word, uint32_t index) {
  return ((word + TAKEN_ONCE) & ~SLEEPERS & ~0xffu) | (index + 1) | (word & SLEEPERS);
}

/* After a holder died half way: the parts are the truth, the sum is made anew. */
static void sum_up(struct gs_tenant *tenant) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    if (GS_LOAD(tenant->procs[i].state) == GS_LIVE) sum += GS_LOAD(tenant->procs[i].used_bytes);
  }
  GS_STORE(tenant->used_bytes, sum);
}

static bool take_from_the_dead(struct gs_region *region, uint32_t word) {
  uint32_t holder = HOLDER(word) - 1; /* the daemon's is GS_PROCS */
  if (holder == region->index || somebody_holds_byte(region->fd, holder)) return false;
  if (!GS_SWAP_IF(region->tenant->lock, word, next_word(word, region->index) | SLEEPERS)) return false;
  sum_up(region->tenant);
  return true;
}

/* False: the daemon has no more patience. The word is the tenant's to write, and must not hold the daemon for ever. */
static bool lock_counts(struct gs_region *region) {
  uint32_t *lock = &region->tenant->lock;
  bool is_daemon = region->index == GS_PROCS;
  for (uint32_t tries = 0; !is_daemon || tries < DAEMON_TRIES; tries++) {
    uint32_t word = GS_LOAD(*lock);
    if (HOLDER(word) == 0) {
      /* Whoever has slept cannot know whether others still do, so it says so. */
      uint32_t mine = next_word(word, region->index) | (tries > SPINS ? SLEEPERS : 0);
      if (GS_SWAP_IF(*lock, word, mine)) return true;
    } else if (tries >= SPINS) {
      uint32_t marked = word | SLEEPERS;
      if (word != marked && !GS_SWAP_IF(*lock, word, marked)) continue;
      gs_futex_wait(lock, marked, HOLDER_CHECK_NS);
      if (GS_LOAD(*lock) == marked && take_from_the_dead(region, marked)) return true;
    } else {
      __asm__ volatile("" ::: "memory");
    }
  }
  return false;
}

static void unlock_counts(struct gs_region *region) {
  uint32_t word = GS_PEEK(region->tenant->lock);
  while (!GS_SWAP_IF(region->tenant->lock, word, word & ~SLEEPERS & ~0xffu)) {
  }
  if (word & SLEEPERS) gs_futex_wake(&region->tenant->lock, 1);
}

/* Byte counts. Each change goes to the process and to the tenant; both under the lock, so that the quota is exact. */

static void raise_to(uint64_t *peak, uint64_t value) {
  if (value > GS_PEEK(*peak)) GS_STORE(*peak, value);
}

static void add_bytes(struct gs_region *region, uint64_t bytes) {
  raise_to(&region->process->peak_bytes, GS_ADD(region->process->used_bytes, bytes));
  raise_to(&region->tenant->peak_bytes, GS_ADD(region->tenant->used_bytes, bytes));
}

bool gs_bytes_reserve(struct gs_region *region, uint64_t bytes, uint64_t quota_bytes) {
  lock_counts(region);
  uint64_t used = GS_PEEK(region->tenant->used_bytes);
  bool fits = quota_bytes == 0 || (used <= quota_bytes && bytes <= quota_bytes - used);
  if (fits) add_bytes(region, bytes);
  unlock_counts(region);
  return fits;
}

void gs_bytes_add(struct gs_region *region, uint64_t bytes) {
  lock_counts(region);
  add_bytes(region, bytes);
  unlock_counts(region);
}

void gs_bytes_give_back(struct gs_region *region, uint64_t bytes) {
  lock_counts(region);
  GS_SUB(region->process->used_bytes, bytes);
  GS_SUB(region->tenant->used_bytes, bytes);
  unlock_counts(region);
}

uint64_t gs_bytes_used(struct gs_region *region) { return GS_LOAD(region->tenant->used_bytes); }

/* Processes that come and go. */

/* The caller holds the lock of the counts and the byte of the process. */
static void bury(struct gs_tenant *tenant, struct gs_process *dead) {
  GS_SUB(tenant->used_bytes, GS_PEEK(dead->used_bytes));
  GS_STORE(dead->used_bytes, 0);
  GS_STORE(dead->in_flight, 0);
  GS_STORE(dead->waiting, 0);
  GS_STORE(dead->state, GS_FREE);
}

uint64_t gs_region_reclaim(struct gs_region *region) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    struct gs_process *process = &region->tenant->procs[i];
    if (i == region->index || GS_LOAD(process->state) != GS_LIVE) continue;
    /* The lock also keeps two threads of ours, who share the byte locks, from doing this at once. */
    if (!lock_counts(region)) return bytes;
    if (GS_LOAD(process->state) == GS_LIVE && take_byte(region->fd, i)) {
      bytes += GS_PEEK(process->used_bytes);
      bury(region->tenant, process);
      let_go_of_byte(region->fd, i);
    }
    unlock_counts(region);
  }
  return bytes;
}

/* The slot as a new process finds it; see struct gs_process for what stays. */
static void clean(struct gs_process *process) {
  process->peak_bytes = process->context_bytes = 0;
  process->last_launch_ns = 0;
  process->in_flight = process->waiting = 0;
  process->mask_now = 0;
  process->period_us = 0;
}

static void become_live(struct gs_region *region) {
  uint32_t word = GS_LOAD(region->tenant->lock);
  bool inherited = HOLDER(word) == region->index + 1; /* who had this slot before us died with the lock in hand */
  if (inherited && GS_SWAP_IF(region->tenant->lock, word, next_word(word, region->index) | SLEEPERS)) {
    sum_up(region->tenant);
  } else {
    lock_counts(region);
  }
  if (GS_LOAD(region->process->state) == GS_LIVE) bury(region->tenant, region->process);
  clean(region->process);
  region->process->pid = (uint32_t)getpid();
  GS_STORE(region->process->state, GS_LIVE);
  unlock_counts(region);
}

/* Who looks for the dead holds their bytes for a moment, so one round is not enough to call the tenant crowded. */
static bool take_slot(struct gs_region *region) {
  for (uint32_t tries = 0; tries < SLOT_ROUNDS * GS_PROCS; tries++) {
    uint32_t index = tries % GS_PROCS;
    if (!take_byte(region->fd, index)) continue;
    region->index = index;
    region->process = &region->tenant->procs[index];
    become_live(region);
    return true;
  }
  return false;
}

/* Finding the files. */

static void *map_file(int fd, int protection, size_t size) {
  struct stat status;
  if (fstat(fd, &status) != 0 || (size_t)status.st_size < size) return NULL;
  void *mapped = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
  return mapped == MAP_FAILED ? NULL : mapped;
}

static void *map_path(const char *path, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *mapped = map_file(fd, PROT_READ, size);
  close(fd);
  return mapped;
}

static const char *tenant_path(void) {
  const char *path = getenv("GPUSQUAD_TENANT");
  return path && *path ? path : FIXED_TENANT;
}

static int folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (int)(slash - path) : 0;
}

/* Beside the tenant's file in a container; beside its folder on the machine itself. */
static const struct gs_decisions *map_decisions(const char *tenant) {
  const char *forms[] = {"%.*s/decisions", "%.*s/../decisions"};
  for (size_t i = 0; i < 2; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, forms[i], folder_length(tenant), tenant);
    const struct gs_decisions *decisions = map_path(path, sizeof *decisions);
    if (decisions) return decisions;
  }
  return NULL;
}

#define IS_OURS(file) ((file)->magic == GS_MAGIC && (file)->version == GS_VERSION && (file)->size == sizeof *(file))

static bool map_region(struct gs_region *region, const char *path) {
  region->fd = open(path, O_RDWR | O_CLOEXEC);
  if (region->fd < 0) {
    gs_say("no region at %s (%s): this process runs without quota and share", path, strerror(errno));
    return false;
  }
  region->tenant = map_file(region->fd, PROT_READ | PROT_WRITE, sizeof *region->tenant);
  region->decisions = map_decisions(path);
  if (!region->tenant || !region->decisions || !IS_OURS(region->tenant) || !IS_OURS(region->decisions) ||
      region->tenant->slot >= GS_SLOTS) {
    gs_say("the region at %s is not of version %u: this process runs without quota and share", path, GS_VERSION);
    return false;
  }
  region->slot = region->tenant->slot;
  region->grant = &region->decisions->grants[region->slot];
  return true;
}

static void drop(struct gs_region *region) {
  if (region->tenant) munmap(region->tenant, sizeof *region->tenant);
  if (region->decisions) munmap((void *)region->decisions, sizeof *region->decisions);
  if (region->fd >= 0) close(region->fd);
  *region = (struct gs_region){.fd = -1};
}

enum gs_found gs_region_attach(struct gs_region *region) {
  if (!map_region(region, tenant_path())) {
    drop(region);
    return GS_NO_REGION;
  }
  if (!take_slot(region)) {
    gs_say("this tenant has %u processes on the card already: no memory for another", GS_PROCS);
    drop(region);
    return GS_CROWDED;
  }
  return GS_ATTACHED;
}

/* For the daemon, which is none of the tenant's processes: it has the byte, and the place as a holder of the lock,
 * after theirs. */
static int64_t reclaim_for_daemon(const char *path) {
  struct gs_region region = {.fd = open(path, O_RDWR | O_CLOEXEC), .index = GS_PROCS};
  if (region.fd < 0) return -1;
  region.tenant = map_file(region.fd, PROT_READ | PROT_WRITE, sizeof *region.tenant);
  if (!region.tenant || !IS_OURS(region.tenant)) return -1;
  return take_byte(region.fd, GS_PROCS) ? (int64_t)gs_region_reclaim(&region) : 0;
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

/* Mates. */

struct mate {
  const struct gs_tenant *mapped, *before; /* `before` may still be read by another thread */
  uint32_t tenancy;                        /* that `mapped` is of */
};

static struct mate mates[GS_SLOTS];
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

static const struct gs_tenant *map_mate(uint32_t slot) {
  char path[PATH_MAX];
  const char *own = tenant_path();
  snprintf(path, sizeof path, "%.*s/%u", folder_length(own), own, slot);
  const struct gs_tenant *mate = map_path(path, sizeof *mate);
  if (!mate) {
    snprintf(path, sizeof path, FIXED_MATES "/%u", slot);
    mate = map_path(path, sizeof *mate);
  }
  if (!mate || (IS_OURS(mate) && mate->slot == slot)) return mate;
  munmap((void *)mate, sizeof *mate);
  return NULL;
}

static void unmap_mate(const struct gs_tenant *mate) {
  if (mate) munmap((void *)mate, sizeof *mate);
}

const struct gs_tenant *gs_mate(uint32_t slot) {
  if (slot >= GS_SLOTS || !gs_region.decisions) return NULL;
  struct mate *mate = &mates[slot];
  uint32_t tenancy = GS_LOAD(gs_region.decisions->grants[slot].tenancy);
  const struct gs_tenant *mapped = GS_LOAD(mate->mapped);
  if (GS_LIKELY(mapped && GS_LOAD(mate->tenancy) == tenancy)) return mapped;
  if (pthread_mutex_trylock(&mapping) != 0) return NULL; /* another thread is at it: not seen just now */
  mapped = map_mate(slot);
  unmap_mate(mate->before);
  mate->before = mate->mapped;
  GS_STORE(mate->mapped, mapped);
  GS_STORE(mate->tenancy, tenancy);
  pthread_mutex_unlock(&mapping);
  return mapped;
}

/* The open file is the parent's too, so closing it here lets go of nothing that is the parent's. */
void gs_region_forget(struct gs_region *region) {
  pthread_mutex_init(&mapping, NULL);
  drop(region);
}
