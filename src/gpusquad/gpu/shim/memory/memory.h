/* What the files of the quota share. */
#ifndef GPUSQUAD_MEMORY_H
#define GPUSQUAD_MEMORY_H

#include "memory/ledger.h"
#include "shim.h"

/* Bytes for this process within the tenant's quota; false: over it. Without a tenant everything fits. */
bool gs_reserve(uint64_t bytes);
void gs_record_peak(void); /* what was reserved is there now */
void gs_release_bytes(uint64_t bytes); /* freed, or never there */
/* Bytes that are held already, beyond what was reserved. False: they are counted, but the quota is now exceeded. */
bool gs_charge(uint64_t bytes);

/* The quota as it is now; 0: none. */
uint64_t gs_quota_bytes(void);

/* Whether calls have to be counted at all. */
static inline bool gs_is_counting(void) { return gs_attached() || GS_LOAD(gs_state) == GS_OUTSIDE; }

/* All other places, those of newer drivers too, are taken to be the card: what may be its memory is counted. */
static inline bool gs_on_host(const CUmemLocation *location) {
  return location->type >= CU_MEM_LOCATION_TYPE_HOST && location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Whether the call goes into a graph instead of being done. */
static inline bool gs_is_recorded(CUstream stream, bool per_thread) {
  return gs_stream_capturing && gs_attached() && gs_stream_capturing(stream, per_thread);
}

/* Reserves and makes the entry; NULL: refuse. `gs_entry_release` undoes it, `gs_entry_commit` says the driver gave it. */
struct gs_entry *gs_entry_reserve(enum gs_kind kind, uint64_t bytes);
CUresult gs_entry_commit(struct gs_entry *entry, uint64_t key, CUresult result);
/* Before and after a free. */
static inline void gs_wait_before_free(void) {
  if (gs_before_free) gs_before_free();
}
CUresult gs_entry_release(struct gs_entry *entry, CUresult result);

/* contexts.c: the context that allocations belong to now. */
const void *gs_current_context(void);
void gs_contexts_forget(void);

/* pools.c: lets pools give unused memory back to the card. */
void gs_trim_pools(void);
void gs_pools_forget(void);
/* True if it was memory of a pool; then `entry` is dealt with once the driver has freed it. */
bool gs_is_pooled(const struct gs_entry *entry);
void gs_pooled_freed(struct gs_entry *entry);

/* physical.c */
void gs_physical_forget(void);

/* graph_memory.c: an allocation became a node of a graph; work is done, so the driver may have let go of memory of graphs;
 * lets it do so now. */
void gs_note_graph_allocation(void);
void gs_graph_memory_settle(void);
void gs_graph_memory_trim(void);
void gs_graph_memory_forget(void);

#endif
