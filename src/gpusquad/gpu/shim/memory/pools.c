/* Memory from pools. A pool that may keep freed memory is charged all the card memory that it has reserved; otherwise a
 * client could hold its quota twice. A pool that keeps none is charged what is allocated from it. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

struct pool {
  struct pool *next;
  CUmemoryPool handle;
  uint64_t live_bytes;    /* allocated and not freed */
  uint64_t charged_bytes; /* for this pool */
  bool keeps;             /* its release threshold is not zero */
  bool destroyed;         /* the handle is invalid; freed when nothing of it is live */
  bool on_host;         /* host memory: not charged */
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static uint32_t keeping_pools; /* pools that keep memory */

/* With pools_lock held. */

static uint64_t attribute_of(const struct pool *pool, CUmemPool_attribute attribute) {
  uint64_t value = 0;
  bool known = pool->handle && GS_CALL(cuMemPoolGetAttribute)(pool->handle, attribute, &value) == CUDA_SUCCESS;
  return known ? value : 0;
}

static void set_keeps(struct pool *pool, bool keeps) {
  if (pool->keeps && !keeps) GS_SUB(keeping_pools, 1);
  if (!pool->keeps && keeps) GS_ADD(keeping_pools, 1);
  pool->keeps = keeps;
}

static struct pool *find(CUmemoryPool handle) {
  for (struct pool *pool = pools; pool; pool = pool->next) {
    if (pool->handle == handle && !pool->destroyed) return pool;
  }
  return NULL;
}

static struct pool *find_or_make(CUmemoryPool handle) {
  struct pool *pool = find(handle);
  if (pool) return pool;
  pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  *pool = (struct pool){.next = pools, .handle = handle};
  set_keeps(pool, attribute_of(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) > 0);
  pools = pool;
  return pool;
}

static void remove_if_done(struct pool *pool) {
  if (!pool->destroyed || pool->live_bytes) return;
  struct pool **link = &pools;
  while (*link != pool) link = &(*link)->next;
  *link = pool->next;
  free(pool);
}

static uint64_t held_bytes(const struct pool *pool) {
  uint64_t reserved = pool->keeps && !pool->on_host ? attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) : 0;
  return reserved > pool->live_bytes ? reserved : pool->live_bytes;
}

/* Sets the account to what the pool holds; false: the quota is exceeded. */
static bool settle(struct pool *pool) {
  uint64_t held = held_bytes(pool), before = pool->charged_bytes;
  pool->charged_bytes = held;
  if (held > before) return gs_charge(held - before);
  gs_release_bytes(before - held);
  return true;
}

static void trim(struct pool *pool) {
  if (pool->handle && !pool->destroyed) GS_CALL(cuMemPoolTrimTo)(pool->handle, 0);
  settle(pool);
}

/* Without pools_lock. */

void gs_trim_pools(void) {
  if (!GS_LOAD(keeping_pools)) return;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  for (struct pool *pool = pools; pool; pool = pool->next) {
    if (pool->keeps) trim(pool);
  }
  gs_unlock(&pools_lock);
}

void gs_memory_after_sync(void) {
  gs_graph_memory_settle();
  if (GS_LIKELY(!GS_LOAD(keeping_pools))) return;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  for (struct pool *pool = pools; pool; pool = pool->next) {
    if (pool->keeps) settle(pool);
  }
  gs_unlock(&pools_lock);
}

void gs_pools_forget(void) {
  pthread_mutex_init(&pools_lock, NULL);
  pools = NULL;
  GS_STORE(keeping_pools, 0);
}

/* Part of an allocation may come from memory that the pool keeps and is charged already. Only the rest is reserved. */
static bool claim(struct pool *pool, uint64_t bytes) {
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  uint64_t kept = pool->charged_bytes - pool->live_bytes;
  uint64_t missing = bytes > kept ? bytes - kept : 0;
  pool->live_bytes += bytes;
  pool->charged_bytes += missing;
  gs_unlock(&pools_lock);
  if (missing == 0 || gs_reserve(missing)) return true;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  pool->live_bytes -= bytes;
  pool->charged_bytes -= missing;
  settle(pool);
  gs_unlock(&pools_lock);
  return false;
}

static void unclaim(struct pool *pool, uint64_t bytes) {
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  pool->live_bytes -= bytes;
  settle(pool);
  remove_if_done(pool);
  gs_unlock(&pools_lock);
}

bool gs_is_pooled(const struct gs_entry *entry) { return entry->kind == GS_POINTER && entry->owner; }

void gs_pooled_freed(struct gs_entry *entry) { unclaim(entry->owner, entry->bytes); }

static CUmemoryPool current_pool(void) {
  CUdevice device = 0;
  CUmemoryPool pool = NULL;
  bool known = GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
              GS_CALL(cuDeviceGetMemPool)(&pool, device) == CUDA_SUCCESS;
  return known ? pool : NULL;
}

static struct pool *find_pool(CUmemoryPool handle) {
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  struct pool *pool = find_or_make(handle);
  gs_unlock(&pools_lock);
  return pool;
}

/* A pool grows in large blocks, so after an allocation it may hold more than was requested. */
static bool within_quota(struct pool *pool) {
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  bool within = settle(pool);
  if (!within) {
    trim(pool);
    uint64_t quota = gs_quota_bytes();
    within = quota == 0 || gs_bytes_used(&gs_region) <= quota;
  }
  gs_unlock(&pools_lock);
  if (within) gs_record_peak();
  return within;
}

/* All allocation calls: from a given or the current pool, with both meanings of stream 0. */

struct request {
  CUdeviceptr *pointer;
  size_t bytes;
  CUmemoryPool pool; /* NULL: the device's current one */
  CUstream stream;
  bool per_thread;
};

static CUresult call_driver(const struct request *request, CUstream stream) {
  CUdeviceptr *pointer = request->pointer;
  size_t bytes = request->bytes;
  if (request->pool) {
    return request->per_thread ? GS_CALL(cuMemAllocFromPoolAsync_ptsz)(pointer, bytes, request->pool, stream)
                               : GS_CALL(cuMemAllocFromPoolAsync)(pointer, bytes, request->pool, stream);
  }
  return request->per_thread ? GS_CALL(cuMemAllocAsync_ptsz)(pointer, bytes, stream)
                             : GS_CALL(cuMemAllocAsync)(pointer, bytes, stream);
}

static CUresult free_on(CUdeviceptr pointer, CUstream stream, bool per_thread) {
  return per_thread ? GS_CALL(cuMemFreeAsync_ptsz)(pointer, stream) : GS_CALL(cuMemFreeAsync)(pointer, stream);
}

static CUstream real_stream(CUstream stream, bool per_thread) {
  return gs_attached() ? gs_stream_real(stream, per_thread) : stream;
}

static CUresult record(const struct request *request) {
  gs_note_graph_allocation();
  return call_driver(request, request->stream);
}

static CUresult allocate(const struct request *request) {
  if (!gs_is_counting() || !request->pointer) return call_driver(request, request->stream);
  if (gs_is_recorded(request->stream, request->per_thread)) return record(request);
  struct pool *pool = find_pool(request->pool ? request->pool : current_pool());
  if (pool && pool->on_host) return call_driver(request, real_stream(request->stream, request->per_thread));
  struct gs_entry *entry = pool ? gs_entry_new(GS_POINTER, request->bytes) : NULL;
  if (!entry || !claim(pool, request->bytes)) {
    free(entry);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  entry->owner = pool;
  CUstream stream = real_stream(request->stream, request->per_thread);
  CUresult result = call_driver(request, stream);
  if (result == CUDA_SUCCESS && within_quota(pool)) {
    gs_ledger_put(entry, *request->pointer);
    return CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) {
    free_on(*request->pointer, stream, request->per_thread);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  unclaim(pool, request->bytes);
  free(entry);
  return result;
}

GS_HOOK(cuMemAllocAsync)(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  return allocate(&(struct request){pointer, bytes, NULL, stream, false});
}

GS_HOOK(cuMemAllocAsync_ptsz)(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  return allocate(&(struct request){pointer, bytes, NULL, stream, true});
}

GS_HOOK(cuMemAllocFromPoolAsync)(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return allocate(&(struct request){pointer, bytes, pool, stream, false});
}

GS_HOOK(cuMemAllocFromPoolAsync_ptsz)(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return allocate(&(struct request){pointer, bytes, pool, stream, true});
}

static CUresult release(CUdeviceptr pointer, CUstream stream, bool per_thread) {
  if (!gs_is_counting() || gs_is_recorded(stream, per_thread)) return free_on(pointer, stream, per_thread);
  struct gs_entry *entry = pointer ? gs_ledger_take(GS_POINTER, pointer) : NULL;
  return gs_entry_release(entry, free_on(pointer, real_stream(stream, per_thread), per_thread));
}

GS_HOOK(cuMemFreeAsync)(CUdeviceptr pointer, CUstream stream) { return release(pointer, stream, false); }

GS_HOOK(cuMemFreeAsync_ptsz)(CUdeviceptr pointer, CUstream stream) { return release(pointer, stream, true); }

/* Pools themselves. */

GS_HOOK(cuMemPoolCreate)(CUmemoryPool *handle, const CUmemPoolProps *properties) {
  CUresult result = GS_CALL(cuMemPoolCreate)(handle, properties);
  if (result != CUDA_SUCCESS || !handle || !properties || !gs_is_counting()) return result;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  struct pool *pool = find_or_make(*handle);
  if (pool) pool->on_host = gs_on_host(&properties->location);
  gs_unlock(&pools_lock);
  return result;
}

GS_HOOK(cuMemPoolSetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  CUresult result = GS_CALL(cuMemPoolSetAttribute)(handle, attribute, value);
  if (result != CUDA_SUCCESS || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || !gs_is_counting()) return result;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  struct pool *pool = find_or_make(handle);
  if (pool) {
    set_keeps(pool, *(const uint64_t *)value > 0);
    settle(pool);
  }
  gs_unlock(&pools_lock);
  return result;
}

GS_HOOK(cuMemPoolTrimTo)(CUmemoryPool handle, size_t keep_bytes) {
  CUresult result = GS_CALL(cuMemPoolTrimTo)(handle, keep_bytes);
  if (!gs_is_counting()) return result;
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  struct pool *pool = find(handle);
  if (pool) settle(pool);
  gs_unlock(&pools_lock);
  return result;
}

/* Allocations outlive the pool and are freed one by one. */
GS_HOOK(cuMemPoolDestroy)(CUmemoryPool handle) {
  if (!gs_is_counting()) return GS_CALL(cuMemPoolDestroy)(handle);
  gs_lock(&pools_lock, GS_RANK_MEMORY);
  CUresult result = GS_CALL(cuMemPoolDestroy)(handle);
  struct pool *pool = result == CUDA_SUCCESS ? find(handle) : NULL;
  if (pool) {
    set_keeps(pool, false);
    pool->destroyed = true;
    settle(pool);
    remove_if_done(pool);
  }
  gs_unlock(&pools_lock);
  return result;
}
