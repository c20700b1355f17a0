/* The card memory that the client sees: its quota, less what its processes hold. */
#include <string.h>

#include "memory/memory.h"

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What is left of the quota after dead processes are reclaimed. */
static uint64_t left_bytes(uint64_t quota_bytes) {
  gs_region_reclaim(&gs_region);
  gs_memory_after_sync();
  uint64_t used = gs_bytes_used(&gs_region);
  return used < quota_bytes ? quota_bytes - used : 0;
}

GS_HOOK(cuMemGetInfo_v2)(size_t *free_bytes, size_t *total_bytes) {
  CUresult result = GS_CALL(cuMemGetInfo_v2)(free_bytes, total_bytes);
  uint64_t quota = gs_quota_bytes();
  if (result != CUDA_SUCCESS || quota == 0) return result;
  if (free_bytes) *free_bytes = smaller(*free_bytes, left_bytes(quota));
  if (total_bytes) *total_bytes = smaller(*total_bytes, quota);
  return result;
}

GS_HOOK(cuDeviceTotalMem_v2)(size_t *bytes, CUdevice device) {
  CUresult result = GS_CALL(cuDeviceTotalMem_v2)(bytes, device);
  uint64_t quota = gs_quota_bytes();
  if (result == CUDA_SUCCESS && quota && bytes) *bytes = smaller(*bytes, quota);
  return result;
}

/* NVML is a separate library that may be loaded after the driver. */

#define NVML(symbol) ((__typeof__(gs_real.symbol))gs_nvml_function((void **)(void *)&gs_real.symbol, #symbol))

/* NVML shows all cards of the machine; the quota is for one. */
static uint64_t quota_on(nvmlDevice_t device) {
  uint64_t quota = gs_quota_bytes();
  char text[96] = "";
  if (quota == 0 || !gs_region.decisions->card[0]) return quota;
  bool known = NVML(nvmlDeviceGetUUID)(device, text, sizeof text) == 0;
  return known && strncmp(text, gs_region.decisions->card, sizeof gs_region.decisions->card) != 0 ? 0 : quota;
}

GS_HOOK(nvmlDeviceGetMemoryInfo)(nvmlDevice_t device, nvmlMemory_t *memory) {
  nvmlReturn_t result = NVML(nvmlDeviceGetMemoryInfo)(device, memory);
  uint64_t quota = result == 0 && memory ? quota_on(device) : 0;
  if (quota == 0) return result;
  memory->total = smaller(memory->total, quota);
  memory->free = smaller(memory->free, left_bytes(quota));
  memory->used = memory->total - smaller(memory->total, memory->free);
  return result;
}

GS_HOOK(nvmlDeviceGetMemoryInfo_v2)(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  nvmlReturn_t result = NVML(nvmlDeviceGetMemoryInfo_v2)(device, memory);
  uint64_t quota = result == 0 && memory ? quota_on(device) : 0;
  if (quota == 0) return result;
  memory->total = smaller(memory->total, quota);
  memory->reserved = 0; /* the driver's own memory is no part of a quota */
  memory->free = smaller(memory->free, left_bytes(quota));
  memory->used = memory->total - smaller(memory->total, memory->free);
  return result;
}
