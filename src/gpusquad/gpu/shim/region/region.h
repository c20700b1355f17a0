/* The shared memory of a card: what the daemon decides and what each tenant tells. The truth of the layout;
 * gpu/region/layout.py mirrors it and a test compares the two. Little-endian, naturally aligned; fields are added at
 * the ends, never moved. */
#ifndef GPUSQUAD_REGION_H
#define GPUSQUAD_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_MAGIC 0x47535144u /* GSQD */
#define GS_VERSION 2u
#define GS_SLOTS 32u    /* tenants on a card */
#define GS_ALL_SLOTS ((1ull << GS_SLOTS) - 1)
#define GS_PROCS 16u    /* processes of a tenant */
#define GS_KERNELS 256u /* kernels a tenant tells durations of */
#define GS_SERVED 1022u /* requests a tenant tells of before the oldest is overwritten */

#define GS_LEVELS 4u /* drivers have five priorities above the usual one: one is left for the program's own order */

#define GS_FREE 0u /* states of a grant and of a process */
#define GS_LIVE 1u

#define GS_LEND 1u /* flag of a grant: run unrestricted while mates are idle */

#define GS_UNGATED UINT64_MAX /* credit of a tenant that is not gated */

/* What the daemon lets one tenant do. */
struct gs_grant {
  uint32_t state;
  uint32_t squad;         /* number of the squad this grant belongs to */
  uint64_t quota_bytes;   /* 0: no limit */
  uint64_t credit_us;     /* cumulative GPU microseconds it may have asked for; GS_UNGATED: not gated */
  uint64_t mask;          /* SM groups it may use; 0: unrestricted */
  uint64_t neighbours;         /* slots that share the squad */
  uint64_t restricted_us; /* semi-spatial: the mask holds until credit used reaches this; 0: for the whole squad */
  uint32_t flags;
  uint32_t slot_generation;       /* how many tenants the slot has had: each has a file of its own under the same name */
  uint64_t context_bytes; /* what a process's first context costs: measured, charged as a constant */
  uint32_t loan_us;       /* a borrower has no more than this queued, so that it can give back soon; 0: 2000 */
  uint32_t loan_wait_max_us; /* its longest wait: a queue that stands may be waiting for this very launch; 0: 5000 */
  uint64_t virtual_card_mask;     /* groups of its virtual card, which it never leaves, lent or released; 0: the whole card */
  uint32_t linger_us; /* a mate is busy until so long after it was: a pause between two requests is not lent */
  uint32_t yield_point_us; /* one that yields can be made to stand still so often in its queued work; 0: 50 */
  uint64_t yield_to; /* slots of mates that go first: while one is busy, what is queued here stands still */
  uint32_t yield_max_ms; /* its longest stand: whoever goes first may hang, or wait for this work; 0: 10000 */
  uint32_t priority_level; /* its blocks go before those of lower levels: priorities above those its program chose; 0: none */
  uint64_t reserved[3];
};

struct gs_decisions {
  uint32_t magic, version, size, slots;
  uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the daemon */
  uint32_t epoch;        /* futex word, grows with every change */
  uint32_t fail_open_ms; /* a heartbeat older than this: tenants run on as if alone; 0: they wait */
  uint32_t groups, sms_per_group;
  char card[48]; /* the card's UUID as NVML writes it; empty: not known */
  uint32_t reserved[10];
  struct gs_grant grants[GS_SLOTS];
};

/* One process of a tenant. Written by that process alone, except used_bytes and state, which change under the lock.
 * What grows with time (asked_us .. waited_ns, moves, iterations, refusals) goes on where the slot's last process left
 * it, so that the sums over a tenant never fall: writers add to it. */
struct gs_process {
  uint32_t pid; /* in its own namespace */
  uint32_t state;
  uint64_t used_bytes, peak_bytes, context_bytes; /* context_bytes is part of used_bytes */
  uint64_t requested_us;                              /* predicted GPU time of all it launched */
  uint64_t completed_us; /* of asked_us the part that is known to be done: predicted time too, so that their difference is
                       what is queued */
  uint64_t launches, copies, graphs, waits, waited_ns;
  uint64_t last_launch_ns;
  uint32_t in_flight; /* batches queued and not yet known to be done */
  uint32_t waiting;   /* stands at the gate now */
  uint64_t mask_now;  /* partition its work goes to now */
  uint64_t moves;
  uint64_t period_us, iterations; /* found from the launch sequence; 0: none found */
  uint64_t refusals;              /* allocations refused for the quota */
  uint64_t idle_since_ns;         /* when in_flight last fell: of one that has none, since when */
  uint32_t uses_collectives;           /* it has launched or captured a collective: nothing of it is held any more */
  uint32_t unused;
  uint64_t reserved[12];
};

struct gs_kernel {
  uint64_t identity;
  uint32_t grid[3], block[3], shared;
  uint32_t count;
  float mean_us, var;
  char name[64];
  uint32_t sequence; /* odd while the row is being written */
  uint32_t reserved[3];
};

/* Requests that were answered: how many, and how long the last ones took, the newest at (count - 1) % GS_SERVED. */
struct gs_served {
  uint64_t count;
  uint32_t us[GS_SERVED];
};

struct gs_client {
  uint32_t magic, version, size, slot;
  uint64_t used_bytes; /* of all processes: their sum whenever nobody holds the lock */
  uint32_t kernels;    /* rows of `kernel` in use */
  uint32_t lock;       /* of the byte counts: who holds it, how often it was taken, whether somebody sleeps; region.c */
  uint64_t peak_bytes;
  uint32_t reserved[22];
  struct gs_process procs[GS_PROCS];
  struct gs_kernel kernel[GS_KERNELS];
  struct gs_served served;
};

_Static_assert(sizeof(struct gs_grant) == 128, "two cache lines");
_Static_assert(offsetof(struct gs_decisions, grants) == 128, "grants start on a line of their own");
_Static_assert(sizeof(struct gs_process) == 256, "four cache lines");
_Static_assert(sizeof(struct gs_kernel) == 128, "two cache lines");
_Static_assert(offsetof(struct gs_client, procs) == 128, "processes start on a line of their own");

/* Where this process stands in the region. Valid while gs_attached(). */
struct gs_region {
  const struct gs_decisions *decisions; /* read-only mapping */
  const struct gs_grant *grant;         /* ours, in `decisions` */
  struct gs_client *client;
  struct gs_process *process; /* ours, in `tenant` */
  uint32_t slot, index;       /* of the tenant on the card, of the process in the tenant */
  int fd;                     /* of the tenant file; holds the OFD lock on byte `index`; mapped is another */
};
extern struct gs_region gs_region;

enum gs_attach_result {
  GS_NO_REGION, /* none, or of another version: run as if not here */
  GS_CROWDED,   /* the tenant has GS_PROCS live processes already */
  GS_ATTACHED,
};
/* Finds, maps and checks the region and takes a process slot; what keeps it from that is said on stderr. */
enum gs_attach_result gs_region_attach(struct gs_region *region);
/* After fork: the parent's slot is not ours. Async-signal-safe. */
void gs_region_forget(struct gs_region *region);

/* Gives back the bytes of processes that died: how many. */
uint64_t gs_region_reclaim(struct gs_region *region);

/* Adds bytes if tenant-wide use stays within `quota_bytes` (0: no limit); false and nothing changed otherwise. */
bool gs_bytes_reserve(struct gs_region *region, uint64_t bytes, uint64_t quota_bytes);
/* What was reserved is there: peaks are of what was held, and not of what the driver refused. */
void gs_bytes_record_peak(struct gs_region *region);
/* Adds bytes that are held already, whatever the quota says. */
void gs_bytes_add(struct gs_region *region, uint64_t bytes);
void gs_bytes_release(struct gs_region *region, uint64_t bytes);
uint64_t gs_bytes_used(struct gs_region *region);

uint64_t gs_now_ns(void); /* CLOCK_MONOTONIC */

/* False once the daemon's heartbeat is older than it said it may be: then nobody waits for its decisions. */
bool gs_daemon_alive(const struct gs_decisions *decisions);

/* Sleeps until the word is no longer `seen`, somebody wakes, or the time is over. The mapping may be read-only. */
void gs_futex_wait(const uint32_t *word, uint32_t seen, uint64_t timeout_ns);
void gs_futex_wake(uint32_t *word, int waiters);

/* What the files of the region share. */
bool gs_region_map(struct gs_region *region, const char *path); /* false: said on stderr; what was opened stays open */
#define GS_IS_OURS(file) ((file)->magic == GS_MAGIC && (file)->version == GS_VERSION && (file)->size == sizeof *(file))
bool gs_byte_take(int fd, uint32_t index); /* the lock that says that a process is alive; false: another's */
bool gs_byte_held(int fd, uint32_t index); /* by anybody, or it cannot be known */
void *gs_map_file(int fd, int protection, size_t size); /* NULL: it cannot be, or is too short */
struct stat;
int gs_fstat(int fd, struct stat *status); /* glibc exports fstat since 2.33 only */

/* Where this process's tenant file is, and the length of its folder's name. */
const char *gs_client_path(void);
int gs_folder_length(const char *path);

/* mates.c: what the processes of another tenant tell, copied: a tenant may shorten its file at any moment, and whoever
 * touches a mapping of it then dies. False where it cannot be seen. One thread at a time. */
bool gs_neighbour_read(uint32_t slot, struct gs_process procs[GS_PROCS]);
/* Whether that process of a mate just read is alive: the kernel knows, whatever its page says. */
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
