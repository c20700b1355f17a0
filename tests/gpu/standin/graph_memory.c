/* Memory that graphs allocate by nodes. A node keeps its address. Physical memory is taken when a graph is launched or
 * uploaded, kept when it is freed, and returned to the card when it is trimmed. */
#include "standin.h"

#include <stdlib.h>

static uint64_t used, used_high, reserved, reserved_high;

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

struct si_op *si_graph_alloc_new_locked(size_t bytes, CUresult *result)
{
    struct si_alloc *alloc = si_alloc_new_locked(bytes, SI_OF_GRAPH, false, result);
    if (!alloc) return NULL;
    struct si_op *op = si_op_new(SI_GRAPH_ALLOC);
    op->alloc = alloc;
    return op;
}

struct si_op *si_graph_free_new_locked(CUdeviceptr address)
{
    struct si_alloc *alloc = si_find_locked((void *)(uintptr_t)address, 1);
    if (!alloc || alloc->memory != SI_OF_GRAPH || alloc->base != (char *)(uintptr_t)address) return NULL;
    struct si_op *op = si_op_new(SI_GRAPH_FREE);
    op->alloc = alloc;
    return op;
}

void si_graph_reclaim_locked(struct si_alloc *alloc)
{
    if (!alloc->is_live) return;
    alloc->is_live = false;
    used -= alloc->bytes;
}

/* Allocates what a launch of these nodes needs beyond the retained memory. `live`: mark them as live. */
CUresult si_graph_map_locked(const struct si_op *ops, bool live)
{
    uint64_t needed = used;
    for (const struct si_op *op = ops; op; op = op->next) {
        if (op->kind != SI_GRAPH_ALLOC) continue;
        if (op->alloc->is_live) return CUDA_ERROR_INVALID_VALUE; /* not freed since the last launch */
        needed += op->alloc->bytes;
    }
    uint64_t missing = needed > reserved ? needed - reserved : 0;
    if (missing && !si_card_charge(si_me.card, si_me.card_fd, si_me.slot, missing)) return CUDA_ERROR_OUT_OF_MEMORY;
    reserved += missing;
    reserved_high = higher(reserved_high, reserved);
    for (const struct si_op *op = ops; op && live; op = op->next) {
        if (op->kind == SI_GRAPH_ALLOC) op->alloc->is_live = true;
    }
    if (live) used = needed;
    used_high = higher(used_high, used);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SI_TRY(si_ready());
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&si_me.lock);
    if (reserved > used) si_card_release(si_me.card, si_me.slot, reserved - used);
    reserved = used;
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    SI_TRY(si_ready());
    if (device || !value || attribute < 0 || attribute > 3) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    uint64_t known[] = {used, used_high, reserved, reserved_high};
    *(cuuint64_t *)value = known[attribute];
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

/* Node functions. */

static CUresult add(CUgraphNode *node, CUgraph graph, struct si_op *op, CUresult result)
{
    if (!op) return result;
    op->from_graph = true;
    si_graph_append_locked(graph, op);
    *node = (CUgraphNode)op;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    (void)after, (void)count;
    SI_TRY(si_need_context(NULL));
    if (!node || !graph || !params || !params->bytesize) return CUDA_ERROR_INVALID_VALUE;
    CUresult result;
    pthread_mutex_lock(&si_me.lock);
    struct si_op *op = si_graph_alloc_new_locked(params->bytesize, &result);
    if (op) params->dptr = (CUdeviceptr)(uintptr_t)op->alloc->base;
    result = add(node, graph, op, result);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                               CUdeviceptr address)
{
    (void)after, (void)count;
    SI_TRY(si_need_context(NULL));
    if (!node || !graph) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = add(node, graph, si_graph_free_new_locked(address), CUDA_ERROR_INVALID_VALUE);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

/* Node types: memory nodes only. */
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count,
                           CUgraphNodeParams *params)
{
    (void)edges;
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        return cuGraphAddMemAllocNode(node, graph, after, count, &params->alloc);
    }
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        return cuGraphAddMemFreeNode(node, graph, after, count, params->free.dptr);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(node, graph, after, NULL, count, params);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    const struct si_op *op = (const struct si_op *)node;
    if (!op || !params || op->kind != SI_GRAPH_ALLOC) return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = op->alloc->bytes,
                                           .dptr = (CUdeviceptr)(uintptr_t)op->alloc->base};
    params->poolProps.location.type = 1;
    return CUDA_SUCCESS;
}
