/* Green contexts: parts of the card by SM groups.
 *
 * The SMs of a 132-SM card are in clusters of 18, 18, 18, 16, 16, 16, 16 and 14. Groups of eight within clusters give
 * the 15 groups and 12 remaining SMs that an H200 reports. Cards of other sizes are one cluster. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

#define SI_EIGHT 8u

struct si_desc { si_mask mask; };

static const uint32_t clusters_of_132[] = {18, 18, 18, 16, 16, 16, 16, 14, 0};

static si_mask mask_of(const CUdevResource *resource)
{
    si_mask mask;
    memcpy(&mask, resource->_internal_padding, sizeof mask);
    return mask;
}

static void fill(CUdevResource *resource, const si_mask *mask)
{
    memset(resource, 0, sizeof *resource);
    resource->type = si_mask_count(mask) ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
    memcpy(resource->_internal_padding, mask, sizeof *mask);
    resource->sm.smCount = si_mask_count(mask);
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, int type)
{
    SI_TRY(si_ready());
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    if (!resource || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
    si_mask all = si_mask_first(si_me.card->sms);
    fill(resource, &all);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, int type)
{
    SI_TRY(si_ready());
    if (!context || context->magic != SI_CONTEXT_MAGIC) return CUDA_ERROR_INVALID_CONTEXT;
    if (!resource || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
    fill(resource, &context->allowed);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, int type)
{
    return cuCtxGetDevResource(green, resource, type);
}

/* First SMs of all complete groups of eight (or of two, if large clusters are not needed). */
static uint32_t steps_of_card(uint32_t *first, uint32_t step)
{
    const uint32_t whole[] = {si_me.card->sms, 0};
    const uint32_t *size = si_me.card->sms == 132 ? clusters_of_132 : whole;
    uint32_t count = 0;
    for (uint32_t start = 0; *size; start += *size++) {
        for (uint32_t sm = start; sm + step <= start + *size; sm += step) first[count++] = sm;
    }
    return count;
}

static bool has_all(const si_mask *mask, uint32_t first, uint32_t step)
{
    for (uint32_t sm = first; sm < first + step; sm++) {
        if (!si_mask_has(mask, sm)) return false;
    }
    return true;
}

static void move_step(si_mask *to, si_mask *from, uint32_t first, uint32_t step)
{
    for (uint32_t sm = first; sm < first + step; sm++) {
        si_mask_add(to, sm);
        si_mask_drop(from, sm);
    }
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *groups, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned flags, unsigned min_count)
{
    uint32_t first[SI_WORDS * 64], usable = 0;
    uint32_t step = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? 2 : SI_EIGHT;
    SI_TRY(si_ready());
    if (!groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
    si_mask left = mask_of(input);
    uint32_t steps = steps_of_card(first, step);
    for (uint32_t i = 0; i < steps; i++) {
        if (has_all(&left, first[i], step)) first[usable++] = first[i];
    }
    uint32_t each = min_count ? (min_count + step - 1) / step : 1, possible = usable / each;
    if (!possible) return CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *groups = possible;
        return CUDA_SUCCESS;
    }
    if (*groups > possible) *groups = possible;
    for (uint32_t group = 0; group < *groups; group++) {
        si_mask mask = {{0}};
        for (uint32_t i = group * each; i < (group + 1) * each; i++) move_step(&mask, &left, first[i], step);
        fill(&result[group], &mask);
    }
    if (remaining) fill(remaining, &left);
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned count)
{
    SI_TRY(si_ready());
    if (!desc || !resources || !count) return CUDA_ERROR_INVALID_VALUE;
    si_mask all = {{0}};
    uint32_t sms = 0;
    for (unsigned i = 0; i < count; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
        si_mask mask = mask_of(&resources[i]);
        sms += si_mask_count(&mask);
        si_mask_join(&all, &mask);
    }
    if (si_mask_count(&all) != sms) return CUDA_ERROR_INVALID_VALUE; /* an SM was given twice */
    *desc = calloc(1, sizeof **desc);
    if (!*desc) abort();
    (*desc)->mask = all;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned flags)
{
    SI_TRY(si_ready());
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    if (!green || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    if (!si_primary_retain()) return CUDA_ERROR_OUT_OF_MEMORY;
    *green = si_context_new(true, desc->mask, si_me.card->green_bytes);
    if (!*green) {
        si_primary_release();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    __atomic_add_fetch(&si_me.green_contexts, 1, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
}

static CUresult need_green(const struct si_context *green)
{
    SI_TRY(si_ready());
    bool ok = green && green->magic == SI_CONTEXT_MAGIC && green->is_green;
    if (ok && green->is_destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    SI_TRY(need_green(green));
    si_context_end(green);
    __atomic_sub_fetch(&si_me.green_contexts, 1, __ATOMIC_ACQ_REL);
    si_primary_release();
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    SI_TRY(need_green(green));
    *context = green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
    SI_TRY(need_green(green));
    if (!stream || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    *stream = si_stream_new(green, flags, priority);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

/* NULL if the stream belongs to no green context. */
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    struct si_stream *owner;
    si_default_stream = CU_STREAM_LEGACY;
    SI_TRY(si_stream_of(stream, &owner));
    *green = owner->context->is_green ? owner->context : NULL;
    return CUDA_SUCCESS;
}

/* The event is complete when all earlier work of the green context is; a separate stream waits for all its streams. */
CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    SI_TRY(need_green(green));
    pthread_mutex_lock(&si_me.lock);
    struct si_stream *waiting = si_stream_new(green, CU_STREAM_NON_BLOCKING, 0);
    for (struct si_stream *each = waiting->next; each && result == CUDA_SUCCESS; each = each->next) {
        if (each->context != green || !each->head) continue;
        struct si_event step = {.magic = SI_EVENT_MAGIC};
        result = si_record_locked(&step, each, 0);
        if (result == CUDA_SUCCESS) result = si_await_locked(waiting, &step);
        si_mark_drop(step.mark);
    }
    if (result == CUDA_SUCCESS) result = si_record_locked(event, waiting, 0);
    waiting->is_destroyed = true;
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    SI_TRY(need_green(green));
    pthread_mutex_lock(&si_me.lock);
    for (struct si_stream *each = si_me.streams; each && result == CUDA_SUCCESS; each = each->next) {
        if (each->context == green && !each->is_destroyed) result = si_await_locked(each, event);
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
