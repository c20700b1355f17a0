/* Contexts. The first context of a process costs memory that no allocation shows; it is charged as a constant until the
 * process ends. Allocations end with their context. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

#define MAX_DEVICES 64

static uint32_t charged; /* 1: the constant is charged */
static CUcontext primary_contexts[MAX_DEVICES];

const void *gs_current_context(void) {
  CUcontext context = NULL;
  return GS_CALL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? context : NULL;
}

/* Not strtoull: headers since glibc 2.38 redirect it to a symbol that older containers do not have. */
static uint64_t decimal(const char *text) {
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; text++) number = number * 10 + (uint64_t)(*text - '0');
  return number;
}

/* The daemon's value; the environment variable is for cards without one. */
static uint64_t constant_bytes(void) {
  uint64_t bytes = gs_attached() ? GS_LOAD(gs_region.grant->context_bytes) : 0;
  const char *text = bytes ? NULL : getenv("GPUSQUAD_CONTEXT_BYTES");
  return text ? decimal(text) : bytes;
}

/* What this call charged; charge_kept undoes it if the driver refuses. */
struct charge {
  bool first;
  uint64_t bytes;
};

/* False: the quota would be exceeded. */
static bool charge_context(struct charge *charge) {
  uint32_t not_yet = 0;
  *charge = (struct charge){0};
  if (!gs_is_counting() || !GS_SWAP_IF(charged, not_yet, 1)) return true;
  charge->first = true;
  charge->bytes = constant_bytes();
  if (gs_reserve(charge->bytes)) return true;
  GS_STORE(charged, 0);
  return false;
}

static CUresult charge_kept(const struct charge *charge, CUresult result) {
  if (result == CUDA_SUCCESS) {
    if (charge->first && gs_attached()) GS_STORE(gs_region.process->context_bytes, charge->bytes);
    if (charge->first) gs_record_peak();
  } else if (charge->first) {
    gs_release_bytes(charge->bytes);
    GS_STORE(charged, 0);
  }
  return result;
}

#define CHARGED(call)                                              \
  do {                                                             \
    struct charge charge;                                          \
    if (!charge_context(&charge)) return CUDA_ERROR_OUT_OF_MEMORY; \
    return charge_kept(&charge, call);                             \
  } while (0)

GS_HOOK(cuCtxCreate)(CUcontext *context, unsigned int flags, CUdevice device) {
  CHARGED(GS_CALL(cuCtxCreate)(context, flags, device));
}

GS_HOOK(cuCtxCreate_v2)(CUcontext *context, unsigned int flags, CUdevice device) {
  CHARGED(GS_CALL(cuCtxCreate_v2)(context, flags, device));
}

GS_HOOK(cuCtxCreate_v3)(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned int flags,
                        CUdevice device) {
  CHARGED(GS_CALL(cuCtxCreate_v3)(context, affinities, count, flags, device));
}

GS_HOOK(cuCtxCreate_v4)(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device) {
  CHARGED(GS_CALL(cuCtxCreate_v4)(context, parameters, flags, device));
}

static CUresult retain(CUcontext *context, CUdevice device) {
  CUresult result = GS_CALL(cuDevicePrimaryCtxRetain)(context, device);
  bool known = result == CUDA_SUCCESS && context && device >= 0 && device < MAX_DEVICES;
  if (known) GS_STORE(primary_contexts[device], *context);
  return result;
}

GS_HOOK(cuDevicePrimaryCtxRetain)(CUcontext *context, CUdevice device) { CHARGED(retain(context, device)); }

/* Contexts that end. */

/* It may have been created by a call that is not intercepted. */
static CUcontext query_primary(CUdevice device) {
  CUcontext context = NULL;
  unsigned int flags;
  int active = 0;
  if (GS_CALL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || !active) return NULL;
  if (GS_CALL(cuDevicePrimaryCtxRetain)(&context, device)) return NULL;
  GS_CALL(cuDevicePrimaryCtxRelease_v2)(device);
  return context;
}

static CUcontext primary_of(CUdevice device) {
  CUcontext known = device >= 0 && device < MAX_DEVICES ? GS_LOAD(primary_contexts[device]) : NULL;
  return known || !gs_attached() ? known : query_primary(device);
}

static CUresult release_memory(CUcontext context, CUresult result) {
  if (result == CUDA_SUCCESS && context && gs_is_counting()) gs_release_bytes(gs_ledger_drop_context(context));
  return result;
}

static bool before_end(CUcontext context) {
  bool managed = context && gs_attached();
  if (managed) gs_context_ending(context);
  return managed;
}

static CUresult after_end(bool managed, CUcontext context, CUresult result) {
  if (managed) gs_context_ended(context, result == CUDA_SUCCESS);
  return release_memory(context, result);
}

#define DESTROY(symbol)                                      \
  GS_HOOK(symbol)(CUcontext context) {                       \
    bool managed = before_end(context);                           \
    return after_end(managed, context, GS_CALL(symbol)(context)); \
  }
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

#define RESET(symbol)                                       \
  GS_HOOK(symbol)(CUdevice device) {                        \
    CUcontext context = primary_of(device);                 \
    bool managed = before_end(context);                          \
    return after_end(managed, context, GS_CALL(symbol)(device)); \
  }
RESET(cuDevicePrimaryCtxReset)
RESET(cuDevicePrimaryCtxReset_v2)

static bool is_active(CUdevice device) {
  unsigned int flags = 0;
  int active = 1;
  return GS_CALL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || active;
}

/* Only the last release destroys the context, and only the driver knows which is the last. */
static CUresult release(CUdevice device, CUresult (*call)(CUdevice)) {
  bool managed = gs_attached();
  CUcontext context = primary_of(device);
  if (managed) gs_context_releasing();
  CUresult result = call(device);
  bool ended = result == CUDA_SUCCESS && !is_active(device);
  if (managed) gs_context_released(ended ? context : NULL);
  return ended ? release_memory(context, result) : result;
}

GS_HOOK(cuDevicePrimaryCtxRelease)(CUdevice device) {
  return release(device, GS_CALL(cuDevicePrimaryCtxRelease));
}
GS_HOOK(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
  return release(device, GS_CALL(cuDevicePrimaryCtxRelease_v2));
}

void gs_contexts_forget(void) {
  GS_STORE(charged, 0);
  for (int i = 0; i < MAX_DEVICES; i++) GS_STORE(primary_contexts[i], NULL);
}
