/* Memory from pools. A pool that may keep freed memory is charged all it has reserved of the card, else a tenant could
 * hold its quota twice; one that keeps none is charged what is allocated from it. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

struct pool {
  struct pool *next;
  CUmemoryPool handle;
  uint64_t live_bytes;    /* allocated and not freed */
  uint64_t charged_bytes; /* in the account for this pool */
  bool keeps;             /* its release threshold is not zero */
  bool destroyed;         /* the handle is void; goes when nothing of it is live */
  bool elsewhere;         /* of the host's memory: not charged */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static uint32_t keepers; /* pools that keep memory */

/* With the lock held, all of these. */

static uint64_t attribute_of(const struct pool *pool, CUmemPool_attribute attribute) {
  uint64_t value = 0;
  bool told = pool->handle && GS_CALL(cuMemPoolGetAttribute)(pool->handle, attribute, &value) == CUDA_SUCCESS;
  return told ? value : 0;
}

static void set_keeps(struct pool *pool, bool keeps) {
  if (pool->keeps && !keeps) GS_SUB(keepers, 1);
  if (!pool->keeps && keeps) GS_ADD(keepers, 1);
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

static uint64_t owed_bytes(const struct pool *pool) {
  uint64_t reserved = pool->keeps && !pool->elsewhere ? attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) : 0;
  return reserved > pool->live_bytes ? reserved : pool->live_bytes;
}

/* Makes the account say what the pool holds; false: that is more than the quota allows. */
static bool settle(struct pool *pool) {
  uint64_t owed = owed_bytes(pool), before = pool->charged_bytes;
  pool->charged_bytes = owed;
  if (owed > before) return gs_charge(owed - before);
  gs_release_bytes(before - owed);
  return true;
}

static void trim(struct pool *pool) {
  if (pool->handle && !pool->destroyed) GS_CALL(cuMemPoolTrimTo)(pool->handle, 0);
  settle(pool);
}

/* Without the lock. */

void gs_trim_pools(void) {
  if (!GS_LOAD(keepers)) return;
  pthread_mutex_lock(&lock);
  for (struct pool *pool = pools; pool; pool = pool->next) {
    if (pool->keeps) trim(pool);
  }
  pthread_mutex_unlock(&lock);
}

void gs_memory_after_sync(void) {
  gs_graph_memory_settle();
  if (GS_LIKELY(!GS_LOAD(keepers))) return;
  pthread_mutex_lock(&lock);
  for (struct pool *pool = pools; pool; pool = pool->next) {
    if (pool->keeps) settle(pool);
  }
  pthread_mutex_unlock(&lock);
}

void gs_pools_forget(void) {
  pthread_mutex_init(&lock, NULL);
  pools = NULL;
  GS_STORE(keepers, 0);
}

/* Part of an allocation may come from what the pool keeps and is charged for already; only the rest is reserved. */
static bool claim(struct pool *pool, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  uint64_t kept = pool->charged_bytes - pool->live_bytes;
  uint64_t missing = bytes > kept ? bytes - kept : 0;
  pool->live_bytes += bytes;
  pool->charged_bytes += missing;
  pthread_mutex_unlock(&lock);
  if (missing == 0 || gs_reserve(missing)) return true;
  pthread_mutex_lock(&lock);
  pool->live_bytes -= bytes;
  pool->charged_bytes -= missing;
  settle(pool);
  pthread_mutex_unlock(&lock);
  return false;
}

static void disclaim(struct pool *pool, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  pool->live_bytes -= bytes;
  settle(pool);
  remove_if_done(pool);
  pthread_mutex_unlock(&lock);
}

bool gs_is_pooled(const struct gs_entry *entry) { return entry->kind == GS_POINTER && entry->owner; }

void gs_pooled_freed(struct gs_entry *entry) { disclaim(entry->owner, entry->bytes); }

static CUmemoryPool current_pool(void) {
  CUdevice device = 0;
  CUmemoryPool pool = NULL;
  bool told = GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
              GS_CALL(cuDeviceGetMemPool)(&pool, device) == CUDA_SUCCESS;
  return told ? pool : NULL;
}

static struct pool *known(CUmemoryPool handle) {
  pthread_mutex_lock(&lock);
  struct pool *pool = find_or_make(handle);
  pthread_mutex_unlock(&lock);
  return pool;
}

/* A pool grows by large blocks, so after the driver said yes it may hold more than was asked for. */
static bool within_quota(struct pool *pool) {
  pthread_mutex_lock(&lock);
  bool within = settle(pool);
  if (!within) {
    trim(pool);
    uint64_t quota = gs_quota_bytes();
    within = quota == 0 || gs_bytes_used(&gs_region) <= quota;
  }
  pthread_mutex_unlock(&lock);
  if (within) gs_record_peak();
  return within;
}

/* Allocation calls of both forms and both meanings of stream 0, in one. */

struct request {
  CUdeviceptr *pointer;
  size_t bytes;
  CUmemoryPool pool; /* NULL: the device's current one */
  CUstream stream;
  bool per_thread;
};

static CUresult pass(const struct request *request, CUstream stream) {
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
  return gs_stream_real && gs_attached() ? gs_stream_real(stream, per_thread) : stream;
}

static CUresult record(const struct request *request) {
  gs_note_graph_allocation();
  return pass(request, request->stream);
}

static CUresult allocate(const struct request *request) {
  if (!gs_is_counting() || !request->pointer) return pass(request, request->stream);
  if (gs_is_recorded(request->stream, request->per_thread)) return record(request);
  struct pool *pool = known(request->pool ? request->pool : current_pool());
  if (pool && pool->elsewhere) return pass(request, real_stream(request->stream, request->per_thread));
  struct gs_entry *entry = pool ? gs_entry_new(GS_POINTER, request->bytes) : NULL;
  if (!entry || !claim(pool, request->bytes)) {
    free(entry);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  entry->owner = pool;
  CUstream stream = real_stream(request->stream, request->per_thread);
  CUresult result = pass(request, stream);
  if (result == CUDA_SUCCESS && within_quota(pool)) {
    gs_ledger_put(entry, *request->pointer);
    return CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) {
    free_on(*request->pointer, stream, request->per_thread);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  disclaim(pool, request->bytes);
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
  pthread_mutex_lock(&lock);
  struct pool *pool = find_or_make(*handle);
  if (pool) pool->elsewhere = gs_on_host(&properties->location);
  pthread_mutex_unlock(&lock);
  return result;
}

GS_HOOK(cuMemPoolSetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  CUresult result = GS_CALL(cuMemPoolSetAttribute)(handle, attribute, value);
  if (result != CUDA_SUCCESS || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || !gs_is_counting()) return result;
  pthread_mutex_lock(&lock);
  struct pool *pool = find_or_make(handle);
  if (pool) {
    set_keeps(pool, *(const uint64_t *)value > 0);
    settle(pool);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

GS_HOOK(cuMemPoolTrimTo)(CUmemoryPool handle, size_t keep_bytes) {
  CUresult result = GS_CALL(cuMemPoolTrimTo)(handle, keep_bytes);
  if (!gs_is_counting()) return result;
  pthread_mutex_lock(&lock);
  struct pool *pool = find(handle);
  if (pool) settle(pool);
  pthread_mutex_unlock(&lock);
  return result;
}

/* Allocations outlive it, and are freed one by one. */
GS_HOOK(cuMemPoolDestroy)(CUmemoryPool handle) {
  if (!gs_is_counting()) return GS_CALL(cuMemPoolDestroy)(handle);
  pthread_mutex_lock(&lock);
  CUresult result = GS_CALL(cuMemPoolDestroy)(handle);
  struct pool *pool = result == CUDA_SUCCESS ? find(handle) : NULL;
  if (pool) {
    set_keeps(pool, false);
    pool->destroyed = true;
    settle(pool);
    remove_if_done(pool);
  }
  pthread_mutex_unlock(&lock);
  return result;
}
