/* Physical memory (cuMemCreate). It lives while a handle or a mapping does, so both are counted. Many programs release
 * the handle as soon as the memory is mapped. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

/* One allocation. Its entries in the ledger (the handle, each mapping) point here. */
struct piece {
  uint64_t bytes;
  uint32_t handles, mappings;
};

static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;

/* With pieces_lock held: frees the piece if nothing refers to it; returns the bytes to release. */
static uint64_t settle(struct piece *piece) {
  if (piece->handles || piece->mappings) return 0;
  uint64_t bytes = piece->bytes;
  free(piece);
  return bytes;
}

/* With pieces_lock held: the piece of a handle that this process created; NULL: imported. */
static struct piece *piece_of(CUmemGenericAllocationHandle handle) {
  struct gs_entry *entry = gs_ledger_take(GS_HANDLE, handle);
  if (!entry) return NULL;
  struct piece *piece = entry->owner;
  gs_ledger_put(entry, handle);
  return piece;
}

static bool on_the_card(const CUmemAllocationProp *properties) {
  return properties && !gs_on_host(&properties->location);
}

GS_HOOK(cuMemCreate)(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
  if (!gs_is_counting() || !handle || !on_the_card(properties)) {
    return GS_CALL(cuMemCreate)(handle, bytes, properties, flags);
  }
  struct piece *piece = calloc(1, sizeof *piece);
  struct gs_entry *entry = piece ? gs_entry_reserve(GS_HANDLE, bytes) : NULL;
  if (!entry) {
    free(piece);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *piece = (struct piece){.bytes = bytes, .handles = 1};
  entry->owner = piece;
  CUresult result = GS_CALL(cuMemCreate)(handle, bytes, properties, flags);
  if (result != CUDA_SUCCESS) free(piece);
  return gs_entry_commit(entry, *handle, result);
}

/* With pieces_lock held: drops one reference. The entry ends with the last, because the driver may reuse the handle. */
static uint64_t drop_handle(struct gs_entry *entry) {
  struct piece *piece = entry->owner;
  piece->handles--;
  if (piece->handles) {
    gs_ledger_put(entry, entry->key);
    return 0;
  }
  free(entry);
  return settle(piece);
}

/* The entry is removed before the driver call, because the driver may reuse the handle at once. */
GS_HOOK(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  if (!gs_is_counting()) return GS_CALL(cuMemRelease)(handle);
  uint64_t bytes = 0;
  gs_lock(&pieces_lock, GS_RANK_MEMORY);
  struct gs_entry *entry = gs_ledger_take(GS_HANDLE, handle);
  CUresult result = GS_CALL(cuMemRelease)(handle);
  if (entry && result == CUDA_SUCCESS) {
    bytes = drop_handle(entry);
  } else if (entry) {
    gs_ledger_put(entry, handle);
  }
  gs_unlock(&pieces_lock);
  gs_release_bytes(bytes);
  return result;
}

static void add_handle(CUmemGenericAllocationHandle handle) {
  gs_lock(&pieces_lock, GS_RANK_MEMORY);
  struct piece *piece = piece_of(handle);
  if (piece) piece->handles++;
  gs_unlock(&pieces_lock);
}

GS_HOOK(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *address) {
  CUresult result = GS_CALL(cuMemRetainAllocationHandle)(handle, address);
  if (result == CUDA_SUCCESS && handle && gs_is_counting()) add_handle(*handle);
  return result;
}

/* Imported memory is charged to its owner. If this process owns it, the handle is known. */
GS_HOOK(cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *handle, void *shareable,
                                         CUmemAllocationHandleType type) {
  CUresult result = GS_CALL(cuMemImportFromShareableHandle)(handle, shareable, type);
  if (result == CUDA_SUCCESS && handle && gs_is_counting()) add_handle(*handle);
  return result;
}

GS_HOOK(cuMemMap)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (!gs_is_counting()) return GS_CALL(cuMemMap)(address, bytes, offset, handle, flags);
  struct gs_entry *entry = gs_entry_new(GS_MAPPING, bytes);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  gs_lock(&pieces_lock, GS_RANK_MEMORY);
  CUresult result = GS_CALL(cuMemMap)(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) {
    struct piece *piece = piece_of(handle);
    if (piece) piece->mappings++;
    entry->owner = piece; /* NULL: imported; still kept, to find the mappings after it */
    gs_ledger_put(entry, address);
  } else {
    free(entry);
  }
  gs_unlock(&pieces_lock);
  return result;
}

/* With pieces_lock held. One call may undo several adjacent mappings. */
static uint64_t drop_mappings(CUdeviceptr address, size_t bytes) {
  uint64_t released = 0;
  for (CUdeviceptr at = address; at < address + bytes;) {
    struct gs_entry *entry = gs_ledger_take(GS_MAPPING, at);
    if (!entry) break;
    struct piece *piece = entry->owner;
    at += entry->bytes;
    free(entry);
    if (!piece) continue;
    piece->mappings--;
    released += settle(piece);
  }
  return released;
}

GS_HOOK(cuMemUnmap)(CUdeviceptr address, size_t bytes) {
  if (!gs_is_counting()) return GS_CALL(cuMemUnmap)(address, bytes);
  gs_lock(&pieces_lock, GS_RANK_MEMORY);
  CUresult result = GS_CALL(cuMemUnmap)(address, bytes);
  uint64_t released = result == CUDA_SUCCESS ? drop_mappings(address, bytes) : 0;
  gs_unlock(&pieces_lock);
  gs_release_bytes(released);
  return result;
}

void gs_physical_forget(void) { pthread_mutex_init(&pieces_lock, NULL); }
