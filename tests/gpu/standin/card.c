/* Opens the shared card, counts its memory, and detects dead processes. */
#define _GNU_SOURCE
#include "card.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t number_from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : fallback;
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void make_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* The UUID is the same in all processes of a card and differs between cards. */
static void make_uuid(struct si_card *card, const struct stat *file)
{
    uint64_t a = (uint64_t)file->st_ino * 0x9e3779b97f4a7c15ull, b = (uint64_t)card->epoch_ns * 0xc2b2ae3d27d4eb4full;
    memcpy(card->uuid, &a, 8);
    memcpy(card->uuid + 8, &b, 8);
}

static void make_card(struct si_card *card, const struct stat *file)
{
    const char *mode = getenv("STANDIN_MODE"), *speed = getenv("STANDIN_SPEED");
    memset(card, 0, sizeof *card);
    card->mode = mode && strcmp(mode, "mps") == 0 ? SI_MPS : SI_TIMESLICE;
    card->sms = (uint32_t)number_from_env("STANDIN_SMS", 132);
    if (card->sms == 0 || card->sms > SI_WORDS * 64) card->sms = 132;
    card->memory_bytes = number_from_env("STANDIN_MEMORY", 16ull << 30);
    card->context_bytes = number_from_env("STANDIN_CONTEXT_BYTES", 64ull << 20);
    card->green_bytes = number_from_env("STANDIN_GREEN_BYTES", 16ull << 20);
    card->slice_ns = number_from_env("STANDIN_SLICE_US", 2000) * 1000;
    card->speed = speed && atof(speed) > 0 ? atof(speed) : 1.0;
    card->epoch_ns = monotonic_ns();
    make_uuid(card, file);
    make_lock(&card->lock);
    __atomic_store_n(&card->magic, SI_MAGIC, __ATOMIC_RELEASE);
}

/* Without STANDIN_CARD, the process has its own card. */
static int open_file(void)
{
    const char *path = getenv("STANDIN_CARD");
    if (!path || !*path) return memfd_create("standin-card", MFD_CLOEXEC);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* The liveness lock needs its own open file, because a forked child inherits the mapping and its file. */
static int reopen(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static struct si_card *map_card(int fd)
{
    struct stat file;
    struct si_card *card = MAP_FAILED;
    flock(fd, LOCK_EX); /* the first process creates the card; if it died half-way, the magic is missing */
    if (fstat(fd, &file) == 0 && ((size_t)file.st_size >= sizeof *card || ftruncate(fd, sizeof *card) == 0)) {
        card = mmap(NULL, sizeof *card, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (card != MAP_FAILED && __atomic_load_n(&card->magic, __ATOMIC_ACQUIRE) != SI_MAGIC) make_card(card, &file);
    flock(fd, LOCK_UN);
    return card == MAP_FAILED ? NULL : card;
}

/* `fd` receives the file for the byte locks. */
struct si_card *si_card_open(int *fd)
{
    int mapped = open_file();
    if (mapped < 0) return NULL;
    struct si_card *card = map_card(mapped);
    *fd = card ? reopen(mapped) : -1;
    close(mapped);
    return *fd < 0 ? NULL : card;
}

void si_card_lock(struct si_card *card)
{
    if (pthread_mutex_lock(&card->lock) == EOWNERDEAD) pthread_mutex_consistent(&card->lock);
}

void si_card_unlock(struct si_card *card) { pthread_mutex_unlock(&card->lock); }

int64_t si_card_clock_ns(const struct si_card *card)
{
    return (int64_t)((double)(monotonic_ns() - card->epoch_ns) * card->speed);
}

int64_t si_card_to_monotonic_ns(const struct si_card *card, int64_t card_ns)
{
    return card->epoch_ns + (int64_t)((double)card_ns / card->speed);
}

static struct flock byte_of(int slot, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return lock;
}

/* The kernel releases the lock when the process ends in any way. */
static bool is_alive(int fd, int slot)
{
    struct flock lock = byte_of(slot, F_WRLCK);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static void free_slot(struct si_card *card, int slot)
{
    for (int i = 0; i < (int)card->entry_count; i++) {
        if (card->entries[i].slot == (uint32_t)slot) card->entries[i].state = SI_FREE;
    }
    card->slots[slot].used_bytes = 0;
    card->slots[slot].live = 0;
}

void si_card_reap(struct si_card *card, int fd, int me)
{
    for (int i = 0; i < SI_PROCS; i++) {
        if (i != me && card->slots[i].live && !is_alive(fd, i)) free_slot(card, i);
    }
    card->reaped_ns = si_card_clock_ns(card);
}

static void init_slot(struct si_card *card, int slot)
{
    const char *priority = getenv("CUDA_MPS_CLIENT_PRIORITY");
    struct si_slot *own = &card->slots[slot];
    own->pid = getpid();
    own->used_bytes = 0;
    own->asleep = 0;
    own->low_priority = card->mode == SI_MPS && priority && atoi(priority) > 0;
    own->live = 1;
}

/* Returns a slot for this process, or -1 if the card is full. */
int si_card_join(struct si_card *card, int fd)
{
    int found = -1;
    si_card_lock(card);
    si_card_reap(card, fd, -1);
    for (int i = 0; i < SI_PROCS && found < 0; i++) {
        struct flock lock = byte_of(i, F_WRLCK);
        if (!card->slots[i].live && fcntl(fd, F_OFD_SETLK, &lock) == 0) found = i;
    }
    if (found >= 0) init_slot(card, found);
    si_card_unlock(card);
    return found;
}

uint64_t si_card_used(const struct si_card *card)
{
    uint64_t used = 0;
    for (int i = 0; i < SI_PROCS; i++) used += card->slots[i].live ? card->slots[i].used_bytes : 0;
    return used;
}

static bool fits(const struct si_card *card, uint64_t bytes)
{
    uint64_t used = si_card_used(card);
    return used <= card->memory_bytes && bytes <= card->memory_bytes - used;
}

bool si_card_charge(struct si_card *card, int fd, int me, uint64_t bytes)
{
    si_card_lock(card);
    if (!fits(card, bytes)) si_card_reap(card, fd, me);
    bool ok = fits(card, bytes);
    if (ok) card->slots[me].used_bytes += bytes;
    si_card_unlock(card);
    return ok;
}

void si_card_release(struct si_card *card, int me, uint64_t bytes)
{
    si_card_lock(card);
    card->slots[me].used_bytes -= bytes;
    si_card_unlock(card);
}

void si_card_wake(struct si_card *card, int slot)
{
    __atomic_add_fetch(&card->slots[slot].wake, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&card->slots[slot].asleep, __ATOMIC_SEQ_CST)) {
        syscall(SYS_futex, &card->slots[slot].wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void si_uuid_text(const struct si_card *card, char text[41])
{
    char *at = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)card->uuid[i]);
    }
}
