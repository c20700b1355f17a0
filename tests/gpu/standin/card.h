/* The card shared by several processes: a file that all of them map. Used by both stand-in libraries. */
#ifndef STANDIN_CARD_H
#define STANDIN_CARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SI_MAGIC 0x53544432u
#define SI_PROCS 64    /* processes on the card at a time */
#define SI_ENTRIES 512 /* kernels running at a time */
#define SI_WORDS 4     /* 64-bit words of an SM mask */
#define SI_NEVER INT64_MAX

typedef struct { uint64_t w[SI_WORDS]; } si_mask;

enum si_mode { SI_TIMESLICE = 0, SI_MPS = 1 };
enum si_entry_state { SI_FREE = 0, SI_LIVE = 1, SI_FINISHED = 2 };

struct si_slot {           /* one process */
    uint32_t live;         /* if its byte of the file is not locked, the process died */
    int32_t pid;
    uint32_t wake;         /* futex of its worker */
    uint32_t asleep;
    uint32_t low_priority; /* MPS client priority: 0 normal, 1 below */
    uint64_t used_bytes;   /* all its allocations, including contexts */
};

struct si_entry {                /* one kernel on the card; times are in nanoseconds of the card clock */
    uint32_t state, slot;
    uint64_t order;              /* order of arrival */
    si_mask allowed, held, used; /* allowed, held now, used so far */
    uint32_t full_sms;           /* SMs at which it runs at full speed */
    uint32_t max_sms;            /* limit of its SMs */
    int32_t priority;            /* lower values run first */
    uint32_t sms_now;
    uint32_t ranks;              /* a collective: spins until this many ranks run; 0: none */
    uint32_t all_ranks_run;
    uint64_t collective_id;
    int64_t arrive_ns, start_ns, end_ns;
    double remaining_ns;         /* remaining work at full speed */
    double sm_ns;                /* SM time used */
};

struct si_card {
    uint32_t magic, mode, sms;
    uint64_t memory_bytes, context_bytes, green_bytes, slice_ns;
    double speed;         /* card seconds per real second */
    int64_t epoch_ns;     /* CLOCK_MONOTONIC when the card clock was 0 */
    char uuid[16];
    pthread_mutex_t lock; /* robust, shared; guards all below */
    int64_t now_ns;       /* time up to which the model has advanced */
    int64_t reaped_ns;    /* last check for dead processes */
    int64_t slice_end_ns;
    uint32_t slice_slot;  /* owner of the current time slice */
    uint32_t entry_count; /* number of entries that were ever used */
    uint64_t order, lines;
    struct si_slot slots[SI_PROCS];
    struct si_entry entries[SI_ENTRIES];
};

/* card.c */
struct si_card *si_card_open(int *fd);
void si_card_lock(struct si_card *card);
void si_card_unlock(struct si_card *card);
int64_t si_card_clock_ns(const struct si_card *card);
int64_t si_card_to_monotonic_ns(const struct si_card *card, int64_t card_ns);
int si_card_join(struct si_card *card, int fd);
void si_card_reap(struct si_card *card, int fd, int me);
uint64_t si_card_used(const struct si_card *card);
bool si_card_charge(struct si_card *card, int fd, int me, uint64_t bytes);
void si_card_release(struct si_card *card, int me, uint64_t bytes);
void si_card_wake(struct si_card *card, int slot);
void si_uuid_text(const struct si_card *card, char text[41]);

/* share.c: called with the card locked */
enum si_step { SI_UP_TO_DATE, SI_MINE_FINISHED, SI_HELD };
enum si_step si_share_advance(struct si_card *card, uint32_t me, int64_t now_ns, int64_t *next_ns);
int si_share_enter(struct si_card *card, uint32_t me, const struct si_entry *what);
void si_share_leave(struct si_card *card, uint32_t me, int entry);

static inline si_mask si_mask_first(uint32_t count)
{
    si_mask mask = {{0}};
    for (uint32_t i = 0; i < count; i++) mask.w[i / 64] |= 1ull << (i % 64);
    return mask;
}

static inline bool si_mask_has(const si_mask *mask, uint32_t sm) { return mask->w[sm / 64] >> (sm % 64) & 1; }
static inline void si_mask_add(si_mask *mask, uint32_t sm) { mask->w[sm / 64] |= 1ull << (sm % 64); }
static inline void si_mask_drop(si_mask *mask, uint32_t sm) { mask->w[sm / 64] &= ~(1ull << (sm % 64)); }

static inline uint32_t si_mask_count(const si_mask *mask)
{
    uint32_t count = 0;
    for (int i = 0; i < SI_WORDS; i++) count += (uint32_t)__builtin_popcountll(mask->w[i]);
    return count;
}

static inline void si_mask_join(si_mask *mask, const si_mask *other)
{
    for (int i = 0; i < SI_WORDS; i++) mask->w[i] |= other->w[i];
}
#endif
