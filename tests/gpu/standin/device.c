/* The driver, its one device, and contexts. */
#define _GNU_SOURCE
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SI_DRIVER_VERSION 13000
#define SI_STACK 32

struct si_process si_me = {.card_fd = -1, .log_fd = -1, .slot = -1};
__thread CUstream si_default_stream;
static __thread struct si_context *stack[SI_STACK];
static __thread int depth;

/* A forked child must not use the parent's driver, nor keep the parent's lock after the parent's death. */
static void in_child(void)
{
    si_me.forked = true;
    if (si_me.card_fd >= 0) close(si_me.card_fd);
}

static uint32_t allowed_sms(const struct si_card *card)
{
    const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    double share = percent && card->mode == SI_MPS ? atof(percent) : 100.0;
    if (share <= 0 || share >= 100) return card->sms;
    uint32_t sms = (uint32_t)(card->sms * share / 100.0) & ~1u; /* an H200 reports 32 for 25 % of 132 */
    return sms < 2 ? 2 : sms;
}

static CUresult begin(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *log = getenv("STANDIN_LOG");
    if (visible && (!*visible || strcmp(visible, "-1") == 0)) return CUDA_ERROR_NO_DEVICE;
    si_me.card = si_card_open(&si_me.card_fd);
    if (!si_me.card) return CUDA_ERROR_NO_DEVICE;
    si_me.slot = si_card_join(si_me.card, si_me.card_fd);
    if (si_me.slot < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    if (log && *log) si_me.log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    si_me.sms = allowed_sms(si_me.card);
    pthread_atfork(NULL, NULL, in_child);
    CUresult result = si_work_start();
    __atomic_store_n(&si_me.ready, result == CUDA_SUCCESS, __ATOMIC_RELEASE);
    return result;
}

CUresult cuInit(unsigned flags)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    CUresult result = CUDA_SUCCESS;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (si_me.forked) return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&once);
    if (!si_me.ready) result = begin();
    pthread_mutex_unlock(&once);
    return result;
}

CUresult si_ready(void)
{
    bool ready = __atomic_load_n(&si_me.ready, __ATOMIC_ACQUIRE) && !si_me.forked;
    return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = SI_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static CUresult need_device(CUdevice device)
{
    SI_TRY(si_ready());
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SI_TRY(need_device(ordinal));
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SI_TRY(si_ready());
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    SI_TRY(need_device(device));
    snprintf(name, (size_t)length, "stand-in");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    SI_TRY(need_device(device));
    memcpy(uuid->bytes, si_me.card->uuid, 16);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    SI_TRY(need_device(device));
    snprintf(text, (size_t)length, "0000:01:00.0");
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SI_TRY(need_device(device));
    *bytes = si_me.card->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SI_TRY(need_device(device));
    SI_TRY(need_device(peer));
    *can = 0;
    return CUDA_SUCCESS;
}

/* Values of the public enum; others are 0. */
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    static const int known[][2] = {
        {1, 1024},   {2, 1024},    {3, 1024},     {4, 64},      {5, 2147483647}, {6, 65535}, {7, 65535},
        {8, 49152},  {10, 32},     {11, 65536},   {12, 65536},  {13, 1980000},   {31, 1},    {36, 3201000},
        {37, 6144},  {38, 52428800}, {39, 2048},  {40, 3},      {41, 1},         {75, 9},    {76, 0},
        {78, 1},     {81, 233472}, {82, 65536},   {83, 1},      {89, 1},         {95, 1},    {97, 232448},
        {102, 1},    {103, 1},     {115, 1},      {120, 1},
    };
    SI_TRY(need_device(device));
    *value = 0;
    if (attribute == 16) *value = (int)si_me.sms;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i][0] == attribute) *value = known[i][1];
    }
    return CUDA_SUCCESS;
}

struct si_context *si_context_new(bool green, si_mask allowed, uint64_t charge_bytes)
{
    if (!si_card_charge(si_me.card, si_me.card_fd, si_me.slot, charge_bytes)) return NULL;
    struct si_context *context = calloc(1, sizeof *context);
    if (!context) abort();
    context->magic = SI_CONTEXT_MAGIC;
    context->is_green = green;
    context->allowed = allowed;
    context->charged_bytes = charge_bytes;
    pthread_mutex_lock(&si_me.lock);
    context->id = ++si_me.ids;
    context->legacy = si_stream_new(context, green ? CU_STREAM_NON_BLOCKING : 0, 0);
    context->legacy->is_legacy = true;
    pthread_mutex_unlock(&si_me.lock);
    return context;
}

static bool is_context(const struct si_context *context) { return context && context->magic == SI_CONTEXT_MAGIC; }

/* Waits for its work. Afterwards its streams can be destroyed but not used. */
void si_context_end(struct si_context *context)
{
    pthread_mutex_lock(&si_me.lock);
    si_wait_locked(NULL, context, si_me.seq);
    context->is_destroyed = true;
    context->generation++;
    context->legacy->is_destroyed = !context->is_primary;
    if (!context->is_green) si_forget_context_locked(context);
    pthread_mutex_unlock(&si_me.lock);
    si_card_release(si_me.card, si_me.slot, context->charged_bytes);
    context->charged_bytes = 0;
}

struct si_context *si_current(void) { return depth ? stack[depth - 1] : NULL; }

CUresult si_need_context(struct si_context **context)
{
    SI_TRY(si_ready());
    struct si_context *now = si_current();
    if (!now) return CUDA_ERROR_INVALID_CONTEXT;
    if (now->is_destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context) *context = now;
    return CUDA_SUCCESS;
}

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

static bool primary_made(void)
{
    if (si_me.primary) return true;
    si_me.primary = si_context_new(false, si_mask_first(si_me.card->sms), si_me.card->context_bytes);
    if (si_me.primary) si_me.primary->is_primary = true;
    return si_me.primary != NULL;
}

static bool primary_revived(void)
{
    struct si_context *primary = si_me.primary;
    if (!primary->is_destroyed) return true;
    if (!si_card_charge(si_me.card, si_me.card_fd, si_me.slot, si_me.card->context_bytes)) return false;
    primary->charged_bytes = si_me.card->context_bytes;
    primary->is_destroyed = false;
    return true;
}

/* The context keeps its handle across releases, as in the real driver. NULL if there is not enough memory. */
struct si_context *si_primary_retain(void)
{
    pthread_mutex_lock(&primary_lock);
    bool there = primary_made() && primary_revived();
    if (there) si_me.primary_holders++;
    pthread_mutex_unlock(&primary_lock);
    return there ? si_me.primary : NULL;
}

void si_primary_release(void)
{
    pthread_mutex_lock(&primary_lock);
    if (--si_me.primary_holders == 0) si_context_end(si_me.primary);
    pthread_mutex_unlock(&primary_lock);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    SI_TRY(need_device(device));
    *context = si_primary_retain();
    return *context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SI_TRY(need_device(device));
    if (si_me.primary_holders == 0) return CUDA_ERROR_INVALID_CONTEXT;
    si_primary_release();
    return CUDA_SUCCESS;
}

/* Refused while a green context exists; then nothing is destroyed. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    SI_TRY(need_device(device));
    if (__atomic_load_n(&si_me.green_contexts, __ATOMIC_ACQUIRE)) return CUDA_ERROR_NOT_PERMITTED;
    if (si_me.primary && !si_me.primary->is_destroyed) si_context_end(si_me.primary);
    si_me.primary_holders = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    SI_TRY(need_device(device));
    si_me.primary_flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    SI_TRY(need_device(device));
    *flags = si_me.primary_flags;
    *active = si_me.primary && !si_me.primary->is_destroyed;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    SI_TRY(need_device(device));
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = si_context_new(false, si_mask_first(si_me.card->sms), si_me.card->context_bytes);
    return *context ? cuCtxPushCurrent_v2(*context) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags, CUdevice device)
{
    if (affinity || count) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device)
{
    if (params) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    SI_TRY(si_ready());
    if (!is_context(context) || context->is_destroyed || context->is_primary || context->is_green) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (si_current() == context) depth--;
    si_context_end(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    SI_TRY(si_ready());
    if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == SI_STACK) return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    SI_TRY(si_ready());
    if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    SI_TRY(si_ready());
    if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth) depth--;
    if (context) stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    SI_TRY(si_ready());
    *context = si_current();
    return CUDA_SUCCESS;
}

/* The primary context also waits for green contexts (measured on an H200). */
CUresult cuCtxSynchronize(void)
{
    struct si_context *context;
    SI_TRY(si_need_context(&context));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_unsafe_locked();
    if (result == CUDA_SUCCESS) {
        si_wait_locked(NULL, context->is_primary ? NULL : context, si_me.seq);
        result = si_me.error;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    SI_TRY(si_need_context(NULL));
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
    SI_TRY(si_need_context(NULL));
    *flags = si_me.primary_flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    struct si_context *now;
    SI_TRY(si_need_context(&now));
    *id = context ? context->id : now->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    (void)context;
    SI_TRY(si_ready());
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
    (void)limit;
    SI_TRY(si_need_context(NULL));
    *value = 1024;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
    (void)limit, (void)value;
    return si_need_context(NULL);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SI_TRY(si_need_context(NULL));
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}
