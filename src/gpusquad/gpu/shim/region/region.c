/* The region of shared memory: a slot in it, and byte counts that survive the death of anybody. */
#include "region/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

#define HOLDER_CHECK_NS 5000000ull /* how long to sleep before asking whether the holder of the lock has died */
#define SPINS 200
#define SLOT_ROUNDS 3
#define DAEMON_TRIES (SPINS + 10)

struct gs_region gs_region = {.fd = -1};

/* A process is alive while it holds the OFD lock on the byte of its index: the kernel lets go of it however it dies. */

static int byte_lock(int fd, int command, short type, uint32_t index, short *found) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
  int answer = fcntl(fd, command, &lock);
  if (found) *found = lock.l_type;
  return answer;
}

bool gs_byte_take(int fd, uint32_t index) { return byte_lock(fd, F_OFD_SETLK, F_WRLCK, index, NULL) == 0; }

static void let_go_of_byte(int fd, uint32_t index) { byte_lock(fd, F_OFD_SETLK, F_UNLCK, index, NULL); }

bool gs_byte_held(int fd, uint32_t index) {
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
static void sum_up(struct gs_client *client) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < GS_PROCS; i++) {
    if (GS_LOAD(client->procs[i].state) == GS_LIVE) sum += GS_LOAD(client->procs[i].used_bytes);
  }
  GS_STORE(client->used_bytes, sum);
}

static bool take_from_the_dead(struct gs_region *region, uint32_t word) {
  uint32_t holder = HOLDER(word) - 1; /* the daemon's is GS_PROCS */
  if (holder == region->index || gs_byte_held(region->fd, holder)) return false;
  if (!GS_SWAP_IF(region->client->lock, word, next_word(word, region->index) | SLEEPERS)) return false;
  sum_up(region->client);
  return true;
}

/* False: the daemon has no more patience. The word is the tenant's to write, and must not hold the daemon for ever. */
static bool lock_counts(struct gs_region *region) {
  uint32_t *lock = &region->client->lock;
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
  uint32_t word = GS_PEEK(region->client->lock);
  while (!GS_SWAP_IF(region->client->lock, word, word & ~SLEEPERS & ~0xffu)) {
  }
  if (word & SLEEPERS) gs_futex_wake(&region->client->lock, 1);
}

/* Byte counts. Each change goes to the process and to the tenant; both under the lock, so that the quota is exact. */

static void raise_to(uint64_t *peak, uint64_t value) {
  if (value > GS_PEEK(*peak)) GS_STORE(*peak, value);
}

static void add_bytes(struct gs_region *region, uint64_t bytes) {
  GS_ADD(region->process->used_bytes, bytes);
  GS_ADD(region->client->used_bytes, bytes);
}

static void raise_peaks(struct gs_region *region) {
  raise_to(&region->process->peak_bytes, GS_PEEK(region->process->used_bytes));
  raise_to(&region->client->peak_bytes, GS_PEEK(region->client->used_bytes));
}

static bool is_below_peaks(const struct gs_region *region) {
  return GS_PEEK(region->process->peak_bytes) >= GS_PEEK(region->process->used_bytes) &&
         GS_PEEK(region->client->peak_bytes) >= GS_PEEK(region->client->used_bytes);
}

void gs_bytes_record_peak(struct gs_region *region) {
  if (is_below_peaks(region)) return; /* as most are: pools and programs take again what they gave back */
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

/* Processes that come and go. */

/* The caller holds the lock of the counts and the byte of the process. */
static void bury(struct gs_client *client, struct gs_process *dead) {
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
    /* The lock also keeps two threads of ours, who share the byte locks, from doing this at once. */
    if (!lock_counts(region)) return bytes;
    if (GS_LOAD(process->state) == GS_LIVE && gs_byte_take(region->fd, i)) {
      bytes += GS_PEEK(process->used_bytes);
      bury(region->client, process);
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
  process->uses_collectives = 0;
}

static void become_live(struct gs_region *region) {
  uint32_t word = GS_LOAD(region->client->lock);
  bool inherited = HOLDER(word) == region->index + 1; /* who had this slot before us died with the lock in hand */
  if (inherited && GS_SWAP_IF(region->client->lock, word, next_word(word, region->index) | SLEEPERS)) {
    sum_up(region->client);
  } else {
    lock_counts(region);
  }
  if (GS_LOAD(region->process->state) == GS_LIVE) bury(region->client, region->process);
  clean(region->process);
  region->process->pid = (uint32_t)getpid();
  GS_STORE(region->process->state, GS_LIVE);
  unlock_counts(region);
}

/* Who looks for the dead holds their bytes for a moment, so one round is not enough to call the tenant crowded. */
static bool take_slot(struct gs_region *region) {
  for (uint32_t tries = 0; tries < SLOT_ROUNDS * GS_PROCS; tries++) {
    uint32_t index = tries % GS_PROCS;
    if (!gs_byte_take(region->fd, index)) continue;
    region->index = index;
    region->process = &region->client->procs[index];
    become_live(region);
    return true;
  }
  return false;
}

static void drop(struct gs_region *region) {
  if (region->client) munmap(region->client, sizeof *region->client);
  if (region->decisions) munmap((void *)region->decisions, sizeof *region->decisions);
  if (region->fd >= 0) close(region->fd);
  *region = (struct gs_region){.fd = -1};
}

enum gs_attach_result gs_region_attach(struct gs_region *region) {
  if (!gs_region_map(region, gs_client_path())) {
    drop(region);
    return GS_NO_REGION;
  }
  if (!take_slot(region)) {
    gs_log("this tenant has %u processes on the card already: no memory for another", GS_PROCS);
    drop(region);
    return GS_CROWDED;
  }
  return GS_ATTACHED;
}

/* The open file is the parent's too, so closing it here lets go of nothing that is the parent's. */
void gs_region_forget(struct gs_region *region) {
  gs_neighbours_forget();
  drop(region);
}
