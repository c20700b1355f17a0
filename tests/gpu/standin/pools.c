/* Stream-ordered memory. A pool keeps freed memory and releases at the next synchronisation what exceeds its release
 * threshold. Blocks have the requested size; a real pool reserves in larger steps. */
#include "standin.h"

#include <stdlib.h>

struct si_pool {
    struct si_pool *next;
    struct si_alloc *unused;
    uint64_t keep_bytes, max_bytes, used, used_high, reserved, reserved_high;
    bool is_destroyed;
};

static struct si_pool standard, *pools = &standard, *current = &standard;

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

static struct si_alloc *take_unused(struct si_pool *pool, size_t bytes)
{
    for (struct si_alloc **link = &pool->unused; *link; link = &(*link)->next_free) {
        struct si_alloc *found = *link;
        if (found->bytes < bytes || found->bytes > 2 * bytes) continue;
        *link = found->next_free;
        found->dead = false;
        return found;
    }
    return NULL;
}

static void trim(struct si_pool *pool, uint64_t keep_bytes)
{
    while (pool->unused && pool->reserved > keep_bytes) {
        struct si_alloc *gone = pool->unused;
        pool->unused = gone->next_free;
        pool->reserved -= gone->bytes;
        si_alloc_end_locked(gone);
    }
}

void si_pools_trim_locked(void)
{
    for (struct si_pool *pool = pools; pool; pool = pool->next) trim(pool, pool->keep_bytes);
}

/* Called by the worker in stream order, with the card locked, so nothing is released to the card here. */
void si_pool_reclaim_locked(struct si_alloc *alloc)
{
    struct si_pool *pool = alloc->pool;
    alloc->dead = true;
    pool->used -= alloc->bytes;
    alloc->next_free = pool->unused;
    pool->unused = alloc;
}

static struct si_alloc *grow(struct si_pool *pool, size_t bytes, CUresult *result)
{
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    if (pool->max_bytes && pool->reserved + bytes > pool->max_bytes) return NULL;
    struct si_alloc *alloc = si_alloc_new_locked(bytes, SI_POOLED, true, result);
    if (!alloc) {
        for (struct si_pool *each = pools; each; each = each->next) trim(each, 0); /* retained memory may be used */
        alloc = si_alloc_new_locked(bytes, SI_POOLED, true, result);
    }
    if (!alloc) return NULL;
    alloc->pool = pool;
    pool->reserved += bytes;
    pool->reserved_high = higher(pool->reserved_high, pool->reserved);
    return alloc;
}

static CUresult capture_alloc(CUdeviceptr *address, size_t bytes, struct si_stream *stream)
{
    CUresult result;
    struct si_op *op = si_graph_alloc_new_locked(bytes, &result);
    if (!op) return result;
    *address = (CUdeviceptr)(uintptr_t)op->alloc->base;
    return si_submit_locked(stream, op);
}

static CUresult allocate(CUdeviceptr *address, size_t bytes, struct si_pool *pool, CUstream handle)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (!address || !bytes || !pool || pool->is_destroyed) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_me.error;
    if (result == CUDA_SUCCESS && stream->capture) {
        result = capture_alloc(address, bytes, stream);
    } else if (result == CUDA_SUCCESS) {
        struct si_alloc *alloc = take_unused(pool, bytes);
        if (!alloc) alloc = grow(pool, bytes, &result);
        if (alloc) {
            pool->used += alloc->bytes;
            pool->used_high = higher(pool->used_high, pool->used);
            *address = (CUdeviceptr)(uintptr_t)alloc->base;
        }
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult cuMemAllocAsync_in(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    return allocate(address, bytes, current, stream);
}
SI_EXPORT_BOTH(cuMemAllocAsync, _ptsz, (CUdeviceptr * address, size_t bytes, CUstream stream), (address, bytes, stream))

static CUresult cuMemAllocFromPoolAsync_in(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return allocate(address, bytes, pool, stream);
}
SI_EXPORT_BOTH(cuMemAllocFromPoolAsync, _ptsz,
               (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),
               (address, bytes, pool, stream))

static CUresult cuMemFreeAsync_in(CUdeviceptr address, CUstream handle)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = si_find_locked((void *)(uintptr_t)address, 1);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (alloc && alloc->memory == SI_POOLED && alloc->base == (char *)(uintptr_t)address) {
        struct si_op *op = si_op_new(SI_POOL_FREE);
        op->alloc = alloc;
        result = si_submit_locked(stream, op);
    } else {
        struct si_op *op = si_graph_free_new_locked(address);
        if (op) result = si_submit_locked(stream, op);
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream), (address, stream))

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    SI_TRY(si_ready());
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    *pool = &standard;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    SI_TRY(cuDeviceGetDefaultMemPool(pool, device));
    *pool = current;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    SI_TRY(si_ready());
    if (device || !pool) return CUDA_ERROR_INVALID_VALUE;
    current = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    SI_TRY(si_ready());
    if (!pool || !props) return CUDA_ERROR_INVALID_VALUE;
    struct si_pool *created = calloc(1, sizeof *created);
    if (!created) abort();
    created->max_bytes = props->maxSize;
    pthread_mutex_lock(&si_me.lock);
    created->next = pools;
    pools = created;
    pthread_mutex_unlock(&si_me.lock);
    *pool = created;
    return CUDA_SUCCESS;
}

/* Allocations of the pool stay valid until they are freed, so the pool object is not freed. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SI_TRY(si_ready());
    if (!pool || pool == &standard || pool->is_destroyed) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    pool->is_destroyed = true;
    pool->keep_bytes = 0;
    trim(pool, 0);
    if (current == pool) current = &standard;
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
    SI_TRY(si_ready());
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    trim(pool, keep_bytes);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    SI_TRY(si_ready());
    if (!pool || !value) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->keep_bytes = *(cuuint64_t *)value;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->reserved_high = pool->reserved;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->used_high = pool->used;
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    SI_TRY(si_ready());
    if (!pool || !value) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    uint64_t known[] = {pool->keep_bytes, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
    pthread_mutex_unlock(&si_me.lock);
    if (attribute >= 1 && attribute <= 3) *(int *)value = 1; /* reuse policies */
    else if (attribute >= 4 && attribute <= 8) *(cuuint64_t *)value = known[attribute - 4];
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    (void)access, (void)count;
    return pool ? si_ready() : CUDA_ERROR_INVALID_VALUE;
}
