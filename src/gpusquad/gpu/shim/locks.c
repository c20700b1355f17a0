/* Checks of the lock order, in debug builds only; locks.h gives the order. */
#ifdef GS_DEBUG
#include "locks.h"

#include <stdlib.h>

#include "shim.h"

#define MAX_HELD 16u

struct held_lock {
  const void *lock;
  enum gs_rank rank;
  bool for_writing;
};

static __thread struct held_lock held[MAX_HELD];
static __thread unsigned int held_count;

static bool writes_partitions(void) {
  for (unsigned int i = 0; i < held_count; i++)
    if (held[i].rank == GS_RANK_PARTITIONS && held[i].for_writing) return true;
  return false;
}

void gs_debug_before_lock(enum gs_rank rank) {
  for (unsigned int i = 0; i < held_count; i++) {
    if (held[i].rank < rank) continue;
    if (rank == GS_RANK_LEGACY && held[i].rank == GS_RANK_TABLE && writes_partitions()) continue;
    gs_log("debug: a lock of rank %d is taken while one of rank %d is held", (int)rank, (int)held[i].rank);
    abort();
  }
}

void gs_debug_locked(const void *lock, enum gs_rank rank, bool for_writing) {
  if (held_count == MAX_HELD) {
    gs_log("debug: a thread holds %u locks", held_count);
    abort();
  }
  held[held_count++] = (struct held_lock){lock, rank, for_writing};
}

void gs_debug_unlocked(const void *lock) {
  for (unsigned int i = held_count; i-- > 0;)
    if (held[i].lock == lock) {
      held[i] = held[--held_count];
      return;
    }
  gs_log("debug: a lock is released that this thread does not hold");
  abort();
}

void gs_debug_assert_held(const void *lock, const char *caller) {
  for (unsigned int i = 0; i < held_count; i++)
    if (held[i].lock == lock) return;
  gs_log("debug: %s requires a lock that this thread does not hold", caller);
  abort();
}
#endif
