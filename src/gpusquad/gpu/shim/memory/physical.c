/* Physical memory (cuMemCreate). It is held as long as a handle or a mapping is, so both are counted: many programs
 * release the handle as soon as the memory is mapped. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

/* One piece of memory; its entries in the ledger (the handle, each mapping) point here. */
struct piece {
  uint64_t bytes;
  uint32_t handles, mappings;
};

static pthread_mutex_t pieces = PTHREAD_MUTEX_INITIALIZER;

/* With the lock held: frees the piece when nothing refers to it; returns the bytes to give back. */
static uint64_t settle(struct piece *piece) {
  if (piece->handles || piece->mappings) return 0;
  uint64_t bytes = piece->bytes;
  free(piece);
  return bytes;
}

/* With the lock held: the piece of a handle that we made; NULL: somebody else's, imported. */
static struct piece *of_handle(CUmemGenericAllocationHandle handle) {
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

/* With the lock held: one reference less. The entry goes with the last, for the driver may use the number again. */
static uint64_t forget_handle(struct gs_entry *entry) {
  struct piece *piece = entry->owner;
  piece->handles--;
  if (piece->handles) {
    gs_ledger_put(entry, entry->key);
    return 0;
  }
  free(entry);
  return settle(piece);
}

/* The entry is out before the driver is asked: the number may be given out again the moment it has answered. */
GS_HOOK(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  if (!gs_is_counting()) return GS_CALL(cuMemRelease)(handle);
  uint64_t bytes = 0;
  pthread_mutex_lock(&pieces);
  struct gs_entry *entry = gs_ledger_take(GS_HANDLE, handle);
  CUresult result = GS_CALL(cuMemRelease)(handle);
  if (entry && result == CUDA_SUCCESS) {
    bytes = forget_handle(entry);
  } else if (entry) {
    gs_ledger_put(entry, handle);
  }
  pthread_mutex_unlock(&pieces);
  gs_release_bytes(bytes);
  return result;
}

static void another_handle(CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&pieces);
  struct piece *piece = of_handle(handle);
  if (piece) piece->handles++;
  pthread_mutex_unlock(&pieces);
}

GS_HOOK(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *address) {
  CUresult result = GS_CALL(cuMemRetainAllocationHandle)(handle, address);
  if (result == CUDA_SUCCESS && handle && gs_is_counting()) another_handle(*handle);
  return result;
}

/* Memory of others is charged to its owner; our own, come back, is known by its handle. */
GS_HOOK(cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *handle, void *shareable,
                                         CUmemAllocationHandleType type) {
  CUresult result = GS_CALL(cuMemImportFromShareableHandle)(handle, shareable, type);
  if (result == CUDA_SUCCESS && handle && gs_is_counting()) another_handle(*handle);
  return result;
}

GS_HOOK(cuMemMap)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (!gs_is_counting()) return GS_CALL(cuMemMap)(address, bytes, offset, handle, flags);
  struct gs_entry *entry = gs_entry_new(GS_MAPPING, bytes);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&pieces);
  CUresult result = GS_CALL(cuMemMap)(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) {
    struct piece *piece = of_handle(handle);
    if (piece) piece->mappings++;
    entry->owner = piece; /* NULL: imported; kept all the same, to find the mappings that lie behind it */
    gs_ledger_put(entry, address);
  } else {
    free(entry);
  }
  pthread_mutex_unlock(&pieces);
  return result;
}

/* One call may undo several mappings that lie side by side. With the lock held. */
static uint64_t forget_mappings(CUdeviceptr address, size_t bytes) {
  uint64_t given_back = 0;
  for (CUdeviceptr at = address; at < address + bytes;) {
    struct gs_entry *entry = gs_ledger_take(GS_MAPPING, at);
    if (!entry) break;
    struct piece *piece = entry->owner;
    at += entry->bytes;
    free(entry);
    if (!piece) continue;
    piece->mappings--;
    given_back += settle(piece);
  }
  return given_back;
}

GS_HOOK(cuMemUnmap)(CUdeviceptr address, size_t bytes) {
  if (!gs_is_counting()) return GS_CALL(cuMemUnmap)(address, bytes);
  pthread_mutex_lock(&pieces);
  CUresult result = GS_CALL(cuMemUnmap)(address, bytes);
  uint64_t given_back = result == CUDA_SUCCESS ? forget_mappings(address, bytes) : 0;
  pthread_mutex_unlock(&pieces);
  gs_release_bytes(given_back);
  return result;
}

void gs_physical_forget(void) { pthread_mutex_init(&pieces, NULL); }
