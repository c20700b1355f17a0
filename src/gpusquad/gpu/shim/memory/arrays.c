/* Arrays and mipmapped arrays. They are charged the size of their elements, without the driver's padding. */
#include "memory/memory.h"

/* By the driver's format numbers. Compressed and video formats take no more than this per element. */
static uint64_t element_bytes(CUarray_format format) {
  switch (format) {
    case 0x01: /* unsigned and signed 8 bit */
    case 0x08:
      return 1;
    case 0x02: /* 16 bit, and half precision */
    case 0x09:
    case 0x10:
      return 2;
    default:
      return 4;
  }
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int level) {
  bool layers = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  uint64_t depth = layers ? descriptor->Depth : descriptor->Depth >> level; /* a level halves all but the layers */
  return at_least_one(descriptor->Width >> level) * at_least_one(descriptor->Height >> level) * at_least_one(depth) *
         at_least_one(descriptor->NumChannels) * element_bytes(descriptor->Format);
}

/* Sparse arrays and arrays with deferred mapping have no memory of their own: it is charged by cuMemCreate. */
static bool has_memory(const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
  return (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels) {
  uint64_t bytes = 0;
  for (unsigned int level = 0; has_memory(descriptor) && level < levels && level < 64; level++) {
    bytes += level_bytes(descriptor, level);
  }
  return bytes;
}

GS_HOOK(cuArrayCreate_v2)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor) {
  if (!gs_is_counting() || !array || !descriptor) return GS_CALL(cuArrayCreate_v2)(array, descriptor);
  CUDA_ARRAY3D_DESCRIPTOR same = {.Width = descriptor->Width,
                                  .Height = descriptor->Height,
                                  .Format = descriptor->Format,
                                  .NumChannels = descriptor->NumChannels};
  struct gs_entry *entry = gs_entry_reserve(GS_ARRAY, array_bytes(&same, 1));
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuArrayCreate_v2)(array, descriptor);
  return gs_entry_commit(entry, (uint64_t)*array, result);
}

GS_HOOK(cuArray3DCreate_v2)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
  if (!gs_is_counting() || !array || !descriptor) return GS_CALL(cuArray3DCreate_v2)(array, descriptor);
  struct gs_entry *entry = gs_entry_reserve(GS_ARRAY, array_bytes(descriptor, 1));
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuArray3DCreate_v2)(array, descriptor);
  return gs_entry_commit(entry, (uint64_t)*array, result);
}

GS_HOOK(cuArrayDestroy)(CUarray array) {
  if (!gs_is_counting()) return GS_CALL(cuArrayDestroy)(array);
  gs_before_free();
  struct gs_entry *entry = gs_ledger_take(GS_ARRAY, (uint64_t)array);
  return gs_entry_release(entry, GS_CALL(cuArrayDestroy)(array));
}

GS_HOOK(cuMipmappedArrayCreate)(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                unsigned int levels) {
  if (!gs_is_counting() || !array || !descriptor) return GS_CALL(cuMipmappedArrayCreate)(array, descriptor, levels);
  struct gs_entry *entry = gs_entry_reserve(GS_MIPMAPS, array_bytes(descriptor, levels));
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->context = gs_current_context();
  CUresult result = GS_CALL(cuMipmappedArrayCreate)(array, descriptor, levels);
  return gs_entry_commit(entry, (uint64_t)*array, result);
}

GS_HOOK(cuMipmappedArrayDestroy)(CUmipmappedArray array) {
  if (!gs_is_counting()) return GS_CALL(cuMipmappedArrayDestroy)(array);
  gs_before_free();
  struct gs_entry *entry = gs_ledger_take(GS_MIPMAPS, (uint64_t)array);
  return gs_entry_release(entry, GS_CALL(cuMipmappedArrayDestroy)(array));
}
