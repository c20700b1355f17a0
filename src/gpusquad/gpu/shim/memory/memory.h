/* The memory quota. */
#ifndef GPUSQUAD_MEMORY_H
#define GPUSQUAD_MEMORY_H

#include "hooks/hooks.h"
#include "memory/ledger.h"
#include "shim.h"
#include "streams/streams.h"

/* Offered to the hooks. */

/* pools.c: work is known to be complete, so pools may have released memory. Cheap if no pool keeps any. */
void gs_memory_after_sync(void);
/* graph_memory.c: calls `run` for a graph if there is room for the memory that its nodes allocate. */
CUresult gs_run_graph(CUgraphExec graph, CUstream stream, bool per_thread, CUresult (*run)(CUgraphExec, CUstream));
/* memory.c: in a forked child, which owns none of its parent's allocations. */
void gs_memory_forget(void);

/* Shared by the files of this folder. */

/* Reserves bytes for this process within the client's quota; false: the quota is exceeded. True without a client. */
bool gs_reserve(uint64_t bytes);
void gs_record_peak(void);             /* what was reserved is allocated now */
void gs_release_bytes(uint64_t bytes); /* freed, or never allocated */
/* Charges bytes that are allocated already, beyond what was reserved. False: the quota is now exceeded. */
bool gs_charge(uint64_t bytes);

/* The quota now; 0: none. */
uint64_t gs_quota_bytes(void);

/* Whether allocations have to be counted at all. */
static inline bool gs_is_counting(void) { return gs_attached() || GS_LOAD(gs_state) == GS_OUTSIDE; }

/* Every other location, also one that only newer drivers know, is assumed to be card memory and is counted. */
static inline bool gs_on_host(const CUmemLocation *location) {
  return location->type >= CU_MEM_LOCATION_TYPE_HOST && location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Whether the call is recorded in a graph instead of executed. */
static inline bool gs_is_recorded(CUstream stream, bool per_thread) {
  return gs_attached() && gs_stream_capturing(stream, per_thread);
}

/* Around an allocation. gs_entry_reserve reserves the bytes and creates the entry; NULL: refuse the allocation.
 * gs_entry_commit puts it into the ledger, or undoes the reservation if the driver refused. */
struct gs_entry *gs_entry_reserve(enum gs_kind kind, uint64_t bytes);
CUresult gs_entry_commit(struct gs_entry *entry, uint64_t key, CUresult result);
/* After a free: releases the bytes of an entry that was taken out of the ledger, or puts it back. */
CUresult gs_entry_release(struct gs_entry *entry, CUresult result);

/* contexts.c: the context that allocations belong to now. */
const void *gs_current_context(void);
void gs_contexts_forget(void);

/* pools.c */
void gs_trim_pools(void); /* returns unused memory of pools to the card */
void gs_pools_forget(void);
bool gs_is_pooled(const struct gs_entry *entry);   /* memory of a pool */
void gs_pooled_freed(struct gs_entry *entry);      /* the driver has freed it */

/* physical.c */
void gs_physical_forget(void);

/* graph_memory.c */
void gs_note_graph_allocation(void); /* an allocation became a node of a graph */
void gs_graph_memory_settle(void);   /* work is complete, so the driver may have released memory of graphs */
void gs_graph_memory_trim(void);     /* makes the driver release it */
void gs_graph_memory_forget(void);

#endif
