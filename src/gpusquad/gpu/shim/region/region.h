/* The shared memory of a card: the daemon's decisions and the reports of each client. This header defines the layout;
 * gpu/region/layout.py mirrors it and a test compares the two. Little-endian, naturally aligned. Fields are added at
 * the ends and never moved. */
#ifndef GPUSQUAD_REGION_H
#define GPUSQUAD_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_MAGIC 0x47535144u /* GSQD */
#define GS_VERSION 2u
#define GS_SLOTS 32u    /* clients on a card */
#define GS_ALL_SLOTS ((1ull << GS_SLOTS) - 1)
#define GS_PROCS 16u    /* processes of a client */
#define GS_KERNELS 256u /* kernels in a client's table */
#define GS_SERVED 1022u /* reported requests before the oldest is overwritten */

#define GS_LEVELS 4u /* drivers have five priorities above the default; one is left for the program's own order */

#define GS_FREE 0u /* states of a grant and of a process */
#define GS_LIVE 1u

#define GS_LEND 1u /* flag of a grant: run unrestricted while all neighbours are idle */

#define GS_UNGATED UINT64_MAX /* credit of a client that is not gated */

/* What the daemon allows one client. */
struct gs_grant {
  uint32_t state;
  uint32_t squad;             /* number of the squad that this grant belongs to */
  uint64_t quota_bytes;       /* 0: no limit */
  uint64_t credit_us;         /* cumulative GPU time that it may have requested; GS_UNGATED: not gated */
  uint64_t mask;              /* SM groups it may use; 0: unrestricted */
  uint64_t neighbours;        /* slots that share the squad */
  uint64_t restricted_us;     /* semi-spatial: the mask applies until requested_us reaches this; 0: the whole squad */
  uint32_t flags;
  uint32_t slot_generation;   /* clients that the slot has had; each has its own file under the same name */
  uint64_t context_bytes;     /* cost of a process's first context: measured, charged as a constant */
  uint32_t loan_us;           /* most that a borrower may have queued, so that it can stop soon; 0: 2000 */
  uint32_t loan_wait_max_us;  /* longest wait of a borrower: its queue may wait for this very launch; 0: 5000 */
  uint64_t virtual_card_mask; /* SM groups of its virtual card, which it never leaves; 0: the whole card */
  uint32_t linger_us;         /* a neighbour counts as busy for this long after its last work, so that a short pause
                                 between two requests is not lent */
  uint32_t yield_point_us;    /* queued GPU time between two points where the client can pause; 0: 50 */
  uint64_t yield_to;          /* slots: while one of these clients is busy, queued work of this one pauses */
  uint32_t yield_max_ms;      /* longest pause: a client it yields to may hang, or wait for this work; 0: 10000 */
  uint32_t priority_level;    /* added to the stream priorities that the program chose; 0: none */
  uint64_t reserved[3];
};

struct gs_decisions {
  uint32_t magic, version, size, slots;
  uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the daemon */
  uint32_t epoch;        /* futex word, grows with every change */
  uint32_t fail_open_ms; /* after a heartbeat older than this, clients run ungated; 0: they wait */
  uint32_t groups, sms_per_group;
  char card[48]; /* UUID of the card as NVML writes it; empty: unknown */
  uint32_t reserved[10];
  struct gs_grant grants[GS_SLOTS];
};

/* One process of a client. Only that process writes it, except used_bytes and state, which change under the lock.
 * Cumulative fields (requested_us .. waited_ns, moves, iterations, refusals) continue where the slot's last process
 * left them, so that the sums over a client never fall. */
struct gs_process {
  uint32_t pid; /* in its own namespace */
  uint32_t state;
  uint64_t used_bytes, peak_bytes, context_bytes; /* context_bytes is part of used_bytes */
  uint64_t requested_us; /* predicted GPU time of everything it has launched */
  uint64_t completed_us; /* the part of requested_us that is known to be complete; the difference is queued */
  uint64_t launches, copies, graphs, waits, waited_ns;
  uint64_t last_launch_ns;
  uint32_t in_flight; /* batches that are queued and not known to be complete */
  uint32_t waiting;   /* threads that wait at the gate now */
  uint64_t mask_now;  /* SM groups that its work goes to now */
  uint64_t moves;
  uint64_t period_us, iterations; /* found in the sequence of launches; 0: none found */
  uint64_t refusals;              /* allocations refused because of the quota */
  uint64_t idle_since_ns;         /* when in_flight last fell */
  uint32_t uses_collectives;      /* it has launched or captured a collective, and is not held from then on */
  uint32_t unused;
  uint64_t reserved[12];
};

struct gs_kernel {
  uint64_t identity;
  uint32_t grid[3], block[3], shared;
  uint32_t count;
  float mean_us, var;
  char name[64];
  uint32_t sequence; /* odd while a process writes the row */
  uint32_t reserved[3];
};

/* Reported requests: their number, and the durations of the last ones. The newest is at (count - 1) % GS_SERVED. */
struct gs_served {
  uint64_t count;
  uint32_t us[GS_SERVED];
};

struct gs_client {
  uint32_t magic, version, size, slot;
  uint64_t used_bytes; /* sum over all processes while the lock is free */
  uint32_t kernels;    /* rows of `kernel` in use */
  uint32_t lock;       /* of the byte counts; region.c explains the word */
  uint64_t peak_bytes;
  uint32_t reserved[22];
  struct gs_process procs[GS_PROCS];
  struct gs_kernel kernel[GS_KERNELS];
  struct gs_served served;
};

_Static_assert(sizeof(struct gs_grant) == 128, "two cache lines");
_Static_assert(offsetof(struct gs_decisions, grants) == 128, "grants start on their own cache line");
_Static_assert(sizeof(struct gs_process) == 256, "four cache lines");
_Static_assert(sizeof(struct gs_kernel) == 128, "two cache lines");
_Static_assert(offsetof(struct gs_client, procs) == 128, "processes start on their own cache line");

/* This process's part of the region. Valid while gs_attached(). */
struct gs_region {
  const struct gs_decisions *decisions; /* read-only mapping */
  const struct gs_grant *grant;         /* ours, in `decisions` */
  struct gs_client *client;
  struct gs_process *process; /* ours, in `client` */
  uint32_t slot, index;       /* of the client on the card, of the process in the client */
  int fd;                     /* of the client's file; holds the OFD lock on byte `index`. The mapping has another */
};
extern struct gs_region gs_region;

enum gs_attach_result {
  GS_NO_REGION, /* none, or of another version: run without quota and gate */
  GS_CROWDED,   /* the client already has GS_PROCS live processes */
  GS_ATTACHED,
};
/* Finds, maps and checks the region and takes a process slot. Logs why it could not. */
enum gs_attach_result gs_region_attach(struct gs_region *region);
/* After fork: the slot is the parent's. Async-signal-safe. */
void gs_region_forget(struct gs_region *region);

/* Releases the bytes of dead processes; returns how many. */
uint64_t gs_region_reclaim(struct gs_region *region);

/* Adds bytes if the client's use stays within `quota_bytes` (0: no limit). False: nothing has changed. */
bool gs_bytes_reserve(struct gs_region *region, uint64_t bytes, uint64_t quota_bytes);
/* The driver has allocated what was reserved. Peaks do not include what it refused. */
void gs_bytes_record_peak(struct gs_region *region);
/* Adds bytes that are allocated already, even beyond the quota. */
void gs_bytes_add(struct gs_region *region, uint64_t bytes);
void gs_bytes_release(struct gs_region *region, uint64_t bytes);
uint64_t gs_bytes_used(struct gs_region *region);

uint64_t gs_now_ns(void); /* CLOCK_MONOTONIC */

/* False: the daemon's heartbeat is older than fail_open_ms, so clients do not wait for its decisions. */
bool gs_daemon_alive(const struct gs_decisions *decisions);

/* Sleeps until the word differs from `seen`, another thread wakes it, or the timeout. The mapping may be read-only. */
void gs_futex_wait(const uint32_t *word, uint32_t seen, uint64_t timeout_ns);
void gs_futex_wake(uint32_t *word, int waiters);

/* Shared by the files of this folder. */
bool gs_region_map(struct gs_region *region, const char *path); /* false: logged; what was opened stays open */
#define GS_IS_OURS(file) ((file)->magic == GS_MAGIC && (file)->version == GS_VERSION && (file)->size == sizeof *(file))
bool gs_byte_take(int fd, uint32_t index); /* the lock of a live process; false: another has it */
bool gs_byte_held(int fd, uint32_t index); /* by any process, or unknown */
void *gs_map_file(int fd, int protection, size_t size); /* NULL: mmap failed, or the file is too short */
struct stat;
int gs_fstat(int fd, struct stat *status); /* glibc exports fstat only since 2.33 */

/* The path of this process's client file, and the length of its folder's path. */
const char *gs_client_path(void);
int gs_folder_length(const char *path);

/* neighbours.c: copies what the processes of another client report. Not a mapping: a client may truncate its file at
 * any moment, and an access to a mapping is then fatal. False: the file cannot be read. One thread at a time. */
bool gs_neighbour_read(uint32_t slot, struct gs_process procs[GS_PROCS]);
/* Whether that process of a client just read is alive, according to the kernel and not to its page. */
bool gs_neighbour_is_alive(uint32_t slot, uint32_t index);
/* After fork. Async-signal-safe. */
void gs_neighbours_forget(void);

#define GS_LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define GS_PEEK(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define GS_STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)
#define GS_ADD(field, value) __atomic_add_fetch(&(field), (value), __ATOMIC_ACQ_REL)
#define GS_SUB(field, value) __atomic_sub_fetch(&(field), (value), __ATOMIC_ACQ_REL)
#define GS_SWAP_IF(field, expected, value) \
  __atomic_compare_exchange_n(&(field), &(expected), (value), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#endif
