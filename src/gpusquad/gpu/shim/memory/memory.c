/* The memory quota, and plain memory. Bytes are reserved before the driver call and released if the driver refuses. So
 * the processes of a client together never hold more than its quota, and no allocation is refused too early. */
#include "memory/memory.h"

#include <stdlib.h>

uint64_t gs_quota_bytes(void) { return gs_attached() ? GS_LOAD(gs_region.grant->quota_bytes) : 0; }

static bool try_reserve(uint64_t bytes) { return gs_bytes_reserve(&gs_region, bytes, gs_quota_bytes()); }

/* Before an allocation is refused: dead processes may hold bytes, and pools more than they need. */
static bool make_room(uint64_t bytes) {
  if (gs_region_reclaim(&gs_region) && try_reserve(bytes)) return true;
  gs_trim_pools();
  gs_graph_memory_trim();
  return try_reserve(bytes);
}

bool gs_reserve(uint64_t bytes) {
  if (!gs_attached()) return GS_LOAD(gs_state) != GS_OUTSIDE;
  if (try_reserve(bytes) || make_room(bytes)) return true;
  GS_ADD(gs_region.process->refusals, 1);
  return false;
}

void gs_record_peak(void) {
  if (gs_attached()) gs_bytes_record_peak(&gs_region);
}

void gs_release_bytes(uint64_t bytes) {
  if (bytes && gs_attached()) gs_bytes_release(&gs_region, bytes);
}

bool gs_charge(uint64_t bytes) {
  if (!gs_attached()) return true;
  gs_bytes_add(&gs_region, bytes);
  uint64_t quota = gs_quota_bytes();
  return quota == 0 || gs_bytes_used(&gs_region) <= quota;
}

struct gs_entry *gs_entry_reserve(enum gs_kind kind, uint64_t bytes) {
  if (!gs_reserve(bytes)) return NULL;
  struct gs_entry *entry = gs_entry_new(kind, bytes);
  if (!entry) gs_release_bytes(bytes);
  return entry;
}

CUresult gs_entry_commit(struct gs_entry *entry, uint64_t key, CUresult result) {
  if (result == CUDA_SUCCESS) {
    gs_record_peak();
    gs_ledger_put(entry, key);
  } else {
    gs_release_bytes(entry->bytes);
    free(entry);
  }
  return result;
}

/* The caller removed the entry before the driver freed the memory, because the same pointer may at once be allocated by
 * another thread. */
CUresult gs_entry_release(struct gs_entry *entry, CUresult result) {
  if (!entry) return result;
  if (result != CUDA_SUCCESS) {
    gs_ledger_put(entry, entry->key);
    return result;
  }
  if (gs_is_pooled(entry)) {
    gs_pooled_freed(entry);
  } else {
    gs_release_bytes(entry->bytes);
  }
  free(entry);
  return result;
}

void gs_memory_forget(void) {
  gs_ledger_forget();
  gs_contexts_forget();
  gs_pools_forget();
  gs_physical_forget();
  gs_graph_memory_forget();
}

/* Plain memory. */

GS_HOOK(cuMemAlloc_v2)(CUdeviceptr *pointer, size_t bytes) {
  if (!gs_is_counting() || !pointer) return GS_CALL(cuMemAlloc_v2)(pointer, bytes);
  struct gs_entry *entry = gs_entry_reserve(GS_POINTER, bytes);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuMemAlloc_v2)(pointer, bytes);
  return gs_entry_commit(entry, *pointer, result);
}

GS_HOOK(cuMemAllocManaged)(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
  if (!gs_is_counting() || !pointer) return GS_CALL(cuMemAllocManaged)(pointer, bytes, flags);
  struct gs_entry *entry = gs_entry_reserve(GS_POINTER, bytes);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuMemAllocManaged)(pointer, bytes, flags);
  return gs_entry_commit(entry, *pointer, result);
}

/* The driver chooses the pitch, so the size of a row is known only afterwards. */
static CUresult book_pitched(struct gs_entry *entry, CUdeviceptr *pointer, uint64_t taken_bytes) {
  uint64_t more_bytes = taken_bytes > entry->bytes ? taken_bytes - entry->bytes : 0;
  if (more_bytes == 0 || gs_reserve(more_bytes)) {
    entry->bytes += more_bytes;
    return gs_entry_commit(entry, *pointer, CUDA_SUCCESS);
  }
  GS_CALL(cuMemFree_v2)(*pointer);
  *pointer = 0;
  return gs_entry_commit(entry, 0, CUDA_ERROR_OUT_OF_MEMORY);
}

static bool product(uint64_t a, uint64_t b, uint64_t *bytes) { return !__builtin_mul_overflow(a, b, bytes); }

GS_HOOK(cuMemAllocPitch_v2)(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element) {
  uint64_t bytes = 0;
  if (!gs_is_counting() || !pointer || !pitch || !product(width, height, &bytes)) {
    return GS_CALL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
  }
  struct gs_entry *entry = gs_entry_reserve(GS_POINTER, bytes);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
  if (result != CUDA_SUCCESS) return gs_entry_commit(entry, 0, result);
  return book_pitched(entry, pointer, (uint64_t)*pitch * height);
}

GS_HOOK(cuMemFree_v2)(CUdeviceptr pointer) {
  if (!gs_is_counting()) return GS_CALL(cuMemFree_v2)(pointer);
  gs_before_free();
  struct gs_entry *entry = pointer ? gs_ledger_take(GS_POINTER, pointer) : NULL;
  return gs_entry_release(entry, GS_CALL(cuMemFree_v2)(pointer));
}
