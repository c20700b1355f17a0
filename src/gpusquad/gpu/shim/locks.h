/* The locks of the shim and the order in which a thread may take them.
 *
 * A thread that holds a lock may only wait for locks further down this list. Trying a lock without waiting is always
 * allowed.
 *
 *   GS_RANK_ATTACH      entry.c: attaching to the region, and every fork
 *   GS_RANK_GATE        gate.c: checking and charging credit
 *   GS_RANK_PARTITIONS  gs_partitions_lock: read while a stream is acquired, written while partitions are created or
 *                       destroyed
 *   GS_RANK_LEGACY      the lock of a legacy default stream
 *   GS_RANK_TABLE       gs_table_lock: the table of streams and contexts
 *   GS_RANK_STREAM      the lock of any other stream; a thread holds one at a time
 *   GS_RANK_LEAF        neighbour_activity.c, yield.c, in_flight.c, partitions.c, capture.c, iterations.c: each holds
 *                       its lock for a few statements or one driver call
 *   GS_RANK_MEMORY      pools.c, graph_memory.c, physical.c: memory accounts; never two at a time
 *   GS_RANK_LEDGER      one stripe of the ledger
 *
 * Last comes the lock of the byte counts, which lies in shared memory (region.c).
 *
 * One exception: gs_streams_evict locks the table first and then every stream, legacy streams included. It holds
 * gs_partitions_lock for writing, and other threads hold a legacy stream while they wait for the table only with
 * gs_partitions_lock held for reading.
 *
 * A build with -DGS_DEBUG records the locks that each thread holds. It aborts on a violation of the order, and where a
 * function that requires a lock is called without it. */
#ifndef GPUSQUAD_LOCKS_H
#define GPUSQUAD_LOCKS_H

#include <pthread.h>
#include <stdbool.h>

enum gs_rank {
  GS_RANK_ATTACH = 1,
  GS_RANK_GATE,
  GS_RANK_PARTITIONS,
  GS_RANK_LEGACY,
  GS_RANK_TABLE,
  GS_RANK_STREAM,
  GS_RANK_LEAF,
  GS_RANK_MEMORY,
  GS_RANK_LEDGER,
};

#ifdef GS_DEBUG
void gs_debug_before_lock(enum gs_rank rank);
void gs_debug_locked(const void *lock, enum gs_rank rank, bool for_writing);
void gs_debug_unlocked(const void *lock);
void gs_debug_assert_held(const void *lock, const char *caller);
#define GS_ASSERT_HELD(lock) gs_debug_assert_held(lock, __func__)
#else
static inline void gs_debug_before_lock(enum gs_rank rank) { (void)rank; }
static inline void gs_debug_locked(const void *lock, enum gs_rank rank, bool for_writing) {
  (void)lock, (void)rank, (void)for_writing;
}
static inline void gs_debug_unlocked(const void *lock) { (void)lock; }
#define GS_ASSERT_HELD(lock) ((void)0)
#endif

static inline void gs_lock(pthread_mutex_t *lock, enum gs_rank rank) {
  gs_debug_before_lock(rank);
  pthread_mutex_lock(lock);
  gs_debug_locked(lock, rank, true);
}

static inline bool gs_try_lock(pthread_mutex_t *lock, enum gs_rank rank) {
  if (pthread_mutex_trylock(lock)) return false;
  gs_debug_locked(lock, rank, true);
  return true;
}

static inline void gs_unlock(pthread_mutex_t *lock) {
  gs_debug_unlocked(lock);
  pthread_mutex_unlock(lock);
}

static inline void gs_read_lock(pthread_rwlock_t *lock, enum gs_rank rank) {
  gs_debug_before_lock(rank);
  pthread_rwlock_rdlock(lock);
  gs_debug_locked(lock, rank, false);
}

static inline void gs_write_lock(pthread_rwlock_t *lock, enum gs_rank rank) {
  gs_debug_before_lock(rank);
  pthread_rwlock_wrlock(lock);
  gs_debug_locked(lock, rank, true);
}

static inline void gs_rw_unlock(pthread_rwlock_t *lock) {
  gs_debug_unlocked(lock);
  pthread_rwlock_unlock(lock);
}

#endif
