/* The shared region: a process slot in it, and byte counts that stay correct when a process dies. */
#include "region/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

#define HOLDER_CHECK_NS 5000000ull /* sleep before checking whether the holder of the lock has died */
#define SPINS 200
#define SLOT_ROUNDS 3
#define MAX_DAEMON_TRIES (SPINS + 10)

struct gs_region gs_region = {.fd = -1};

/* A process is alive while it holds the OFD lock on the byte of its index. The kernel releases it however it dies. */

static int byte_lock(int fd, int command, short type, uint32_t index, short *found) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
  int answer = fcntl(fd, command, &lock);
  if (found) *found = lock.l_type;
  return answer;
}

bool gs_byte_take(int fd, uint32_t index) { return byte_lock(fd, F_OFD_SETLK, F_WRLCK, index, NULL) == 0; }

static void release_byte(int fd, uint32_t index) { byte_lock(fd, F_OFD_SETLK, F_UNLCK, index, NULL); }

bool gs_byte_held(int fd, uint32_t index) {
  short found = F_UNLCK;
  return byte_lock(fd, F_OFD_GETLK, F_WRLCK, index, &found) != 0 || found != F_UNLCK;
}

/* The lock of the byte counts, one word: in the low byte 1 + index of the holder (0: free); in the middle how often it
 * was taken, so that an old word is not mistaken for a new one; the top bit is set while a thread may sleep. */

#define HOLDER(word) ((word) & 0xffu)
#define TAKEN_ONCE 0x100u
#define SLEEPERS 0x80000000u

static uint32_t next_word(uint32_t word, uint32_t index) {
  return ((word + TAKEN_ONCE) & ~SLEEPERS & ~0xffu) | (index + 1) | (word & SLEEPERS);
}

/* A holder died with the lock: the counts of the processes are correct, so the sum is computed again. */
static void recompute_sum(struct gs_client *client) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    if (GS_LOAD(client->procs[i].state) == GS_LIVE) sum += GS_LOAD(client->procs[i].used_bytes);
  }
  GS_STORE(client->used_bytes, sum);
}

static bool take_over_lock(struct gs_region *region, uint32_t word) {
  uint32_t holder = HOLDER(word) - 1; /* the daemon's is GS_PROCS */
  if (holder == region->index || gs_byte_held(region->fd, holder)) return false;
  if (!GS_SWAP_IF(region->client->lock, word, next_word(word, region->index) | SLEEPERS)) return false;
  recompute_sum(region->client);
  return true;
}

/* False: the daemon gives up. The client can write the word, which must not block the daemon indefinitely. */
static bool lock_counts(struct gs_region *region) {
  uint32_t *lock = &region->client->lock;
  bool is_daemon = region->index == GS_PROCS;
  for (uint32_t tries = 0; !is_daemon || tries < MAX_DAEMON_TRIES; tries++) {
    uint32_t word = GS_LOAD(*lock);
    if (HOLDER(word) == 0) {
      /* A thread that has slept does not know whether others still sleep, so it sets the bit. */
      uint32_t mine = next_word(word, region->index) | (tries > SPINS ? SLEEPERS : 0);
      if (GS_SWAP_IF(*lock, word, mine)) return true;
    } else if (tries >= SPINS) {
      uint32_t marked = word | SLEEPERS;
      if (word != marked && !GS_SWAP_IF(*lock, word, marked)) continue;
      gs_futex_wait(lock, marked, HOLDER_CHECK_NS);
      if (GS_LOAD(*lock) == marked && take_over_lock(region, marked)) return true;
    } else {
      __asm__ volatile("" ::: "memory");
    }
  }
  return false;
}

static void unlock_counts(struct gs_region *region) {
  uint32_t word = GS_PEEK(region->client->lock);
  while (!GS_SWAP_IF(region->client->lock, word, word & ~SLEEPERS & ~0xffu)) {
  }
  if (word & SLEEPERS) gs_futex_wake(&region->client->lock, 1);
}

/* Byte counts. Each change goes to the process and to the client, both under the lock, so that the quota is exact. */

static void raise_peak(uint64_t *peak, uint64_t value) {
  if (value > GS_PEEK(*peak)) GS_STORE(*peak, value);
}

static void add_bytes(struct gs_region *region, uint64_t bytes) {
  GS_ADD(region->process->used_bytes, bytes);
  GS_ADD(region->client->used_bytes, bytes);
}

static void raise_peaks(struct gs_region *region) {
  raise_peak(&region->process->peak_bytes, GS_PEEK(region->process->used_bytes));
  raise_peak(&region->client->peak_bytes, GS_PEEK(region->client->used_bytes));
}

static bool is_below_peaks(const struct gs_region *region) {
  return GS_PEEK(region->process->peak_bytes) >= GS_PEEK(region->process->used_bytes) &&
         GS_PEEK(region->client->peak_bytes) >= GS_PEEK(region->client->used_bytes);
}

void gs_bytes_record_peak(struct gs_region *region) {
  if (is_below_peaks(region)) return; /* the usual case: pools and programs allocate again what they released */
  lock_counts(region);
  raise_peaks(region);
  unlock_counts(region);
}

bool gs_bytes_reserve(struct gs_region *region, uint64_t bytes, uint64_t quota_bytes) {
  lock_counts(region);
  uint64_t used = GS_PEEK(region->client->used_bytes);
  bool fits = quota_bytes == 0 || (used <= quota_bytes && bytes <= quota_bytes - used);
  if (fits) add_bytes(region, bytes);
  unlock_counts(region);
  return fits;
}

void gs_bytes_add(struct gs_region *region, uint64_t bytes) {
  lock_counts(region);
  add_bytes(region, bytes);
  raise_peaks(region);
  unlock_counts(region);
}

void gs_bytes_release(struct gs_region *region, uint64_t bytes) {
  lock_counts(region);
  GS_SUB(region->process->used_bytes, bytes);
  GS_SUB(region->client->used_bytes, bytes);
  unlock_counts(region);
}

uint64_t gs_bytes_used(struct gs_region *region) { return GS_LOAD(region->client->used_bytes); }

/* Processes. */

/* The caller holds the lock of the counts and the byte of the process. */
static void free_process(struct gs_client *client, struct gs_process *dead) {
  GS_SUB(client->used_bytes, GS_PEEK(dead->used_bytes));
  GS_STORE(dead->used_bytes, 0);
  GS_STORE(dead->in_flight, 0);
  GS_STORE(dead->waiting, 0);
  GS_STORE(dead->state, GS_FREE);
}

uint64_t gs_region_reclaim(struct gs_region *region) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    struct gs_process *process = &region->client->procs[i];
    if (i == region->index || GS_LOAD(process->state) != GS_LIVE) continue;
    /* Two threads of this process share its byte locks; the lock keeps them from doing this at once. */
    if (!lock_counts(region)) return bytes;
    if (GS_LOAD(process->state) == GS_LIVE && gs_byte_take(region->fd, i)) {
      bytes += GS_PEEK(process->used_bytes);
      free_process(region->client, process);
      release_byte(region->fd, i);
    }
    unlock_counts(region);
  }
  return bytes;
}

/* Resets the slot for a new process; struct gs_process says what stays. */
static void reset_process(struct gs_process *process) {
  process->peak_bytes = process->context_bytes = 0;
  process->last_launch_ns = 0;
  process->in_flight = process->waiting = 0;
  process->mask_now = 0;
  process->period_us = 0;
  process->uses_collectives = 0;
}

static void start_process(struct gs_region *region) {
  uint32_t word = GS_LOAD(region->client->lock);
  bool inherited = HOLDER(word) == region->index + 1; /* the last process in this slot died with the lock */
  if (inherited && GS_SWAP_IF(region->client->lock, word, next_word(word, region->index) | SLEEPERS)) {
    recompute_sum(region->client);
  } else {
    lock_counts(region);
  }
  if (GS_LOAD(region->process->state) == GS_LIVE) free_process(region->client, region->process);
  reset_process(region->process);
  region->process->pid = (uint32_t)getpid();
  GS_STORE(region->process->state, GS_LIVE);
  unlock_counts(region);
}

/* A process that reclaims holds the bytes of dead ones for a moment, so one round does not prove that all slots are
 * in use. */
static bool take_slot(struct gs_region *region) {
  for (uint32_t tries = 0; tries < SLOT_ROUNDS * GS_PROCS; tries++) {
    uint32_t index = tries % GS_PROCS;
    if (!gs_byte_take(region->fd, index)) continue;
    region->index = index;
    region->process = &region->client->procs[index];
    start_process(region);
    return true;
  }
  return false;
}

static void unmap(struct gs_region *region) {
  if (region->client) munmap(region->client, sizeof *region->client);
  if (region->decisions) munmap((void *)region->decisions, sizeof *region->decisions);
  if (region->fd >= 0) close(region->fd);
  *region = (struct gs_region){.fd = -1};
}

enum gs_attach_result gs_region_attach(struct gs_region *region) {
  if (!gs_region_map(region, gs_client_path())) {
    unmap(region);
    return GS_NO_REGION;
  }
  if (!take_slot(region)) {
    gs_log("this client already has %u processes on the card: no memory for another", GS_PROCS);
    unmap(region);
    return GS_CROWDED;
  }
  return GS_ATTACHED;
}

/* The parent has the same open file, so closing it here does not release the parent's locks. */
void gs_region_forget(struct gs_region *region) {
  gs_neighbours_forget();
  unmap(region);
}
