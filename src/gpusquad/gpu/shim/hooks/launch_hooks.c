/* The hooks of launches: kernels, graphs, copies and memsets. Each describes its work, passes the gate and calls the
 * driver with the stream that the work goes to now. */
#include "gate/gate.h"
#include "memory/memory.h"

static struct gs_work kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared) {
  return (struct gs_work){.kind = GS_KERNEL,
                          .shared = shared,
                          .handle = function,
                          .grid = {grid_x, grid_y, grid_z},
                          .block = {block_x, block_y, block_z}};
}

/* A cooperative grid or a large cluster that fits the whole card may not fit a partition. A launch that the driver
 * refuses on a partition is tried once more on the caller's own stream, unless that is captured; see
 * virtual_card_graphs.c. */
#define GIVE(call, stream)                                                       \
  do {                                                                           \
    CUresult result = call;                                                      \
    if (GS_UNLIKELY(result) && gs_launch_retry(&ticket, &stream)) result = call; \
    return gs_launch_end(&ticket, result);                                       \
  } while (0)

#define LAUNCH_KERNEL(symbol, per_thread)                                                                     \
  GS_HOOK(symbol)                                                                                             \
  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,  \
   unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters, \
   void **extra) {                                                                                            \
    struct gs_ticket ticket;                                                                                  \
    struct gs_work work = kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes);  \
    stream = gs_launch_begin(&ticket, &work, stream, per_thread);                                             \
    GIVE(GS_CALL(symbol)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,   \
                         parameters, extra),                                                                  \
         stream);                                                                                             \
  }
LAUNCH_KERNEL(cuLaunchKernel, false)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, true)

/* Its blocks synchronise, so all must be resident at once. */
static struct gs_work cooperative(struct gs_work work) {
  work.cooperative = true;
  return work;
}

#define LAUNCH_COOPERATIVE(symbol, per_thread)                                                                  \
  GS_HOOK(symbol)                                                                                               \
  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,    \
   unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters) { \
    struct gs_ticket ticket;                                                                                    \
    struct gs_work work =                                                                                       \
        cooperative(kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes));         \
    stream = gs_launch_begin(&ticket, &work, stream, per_thread);                                               \
    GIVE(GS_CALL(symbol)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,     \
                         parameters),                                                                           \
         stream);                                                                                               \
  }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

static inline CUresult launch_ex(const struct gs_ticket *ticket, gs_launch_ex *launch, const CUlaunchConfig *config,
                                 CUfunction function, void **parameters, void **extra) {
  bool by_detour = GS_UNLIKELY(ticket->stream != NULL) && ticket->captured == GS_ON_DETOUR;
  return by_detour ? gs_detour_launch(launch, config, function, parameters, extra)
                   : launch(config, function, parameters, extra);
}

#define LAUNCH_EX(symbol, per_thread)                                                                              \
  GS_HOOK(symbol)(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {            \
    if (!config) return GS_CALL(symbol)(config, function, parameters, extra);                                      \
    struct gs_ticket ticket;                                                                                       \
    CUlaunchConfig placed = *config;                                                                               \
    struct gs_work work = kernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,                   \
                                 config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes); \
    work.config = config;                                                                                          \
    placed.hStream = gs_launch_begin(&ticket, &work, config->hStream, per_thread);                                 \
    GIVE(launch_ex(&ticket, GS_CALL(symbol), &placed, function, parameters, extra), placed.hStream);               \
  }
LAUNCH_EX(cuLaunchKernelEx, false)
LAUNCH_EX(cuLaunchKernelEx_ptsz, true)

#define LAUNCH_GRAPH(symbol, per_thread)                             \
  static CUresult symbol##_now(CUgraphExec graph, CUstream stream) { \
    struct gs_ticket ticket;                                         \
    struct gs_work work = {.kind = GS_GRAPH, .handle = graph};       \
    stream = gs_launch_begin(&ticket, &work, stream, per_thread);    \
    GIVE(GS_CALL(symbol)(graph, stream), stream);                    \
  }                                                                  \
  GS_HOOK(symbol)(CUgraphExec graph, CUstream stream) {              \
    return gs_run_graph(graph, stream, per_thread, symbol##_now);    \
  }
LAUNCH_GRAPH(cuGraphLaunch, false)
LAUNCH_GRAPH(cuGraphLaunch_ptsz, true)

/* `name` is its name in the kernel table; `size` its bytes, or 0 if they are not known. */
#define COPY_ONE(symbol, per_thread, name, size, parameters, arguments)                 \
  GS_HOOK(symbol) parameters {                                                          \
    struct gs_ticket ticket;                                                            \
    struct gs_work work = {.kind = GS_COPY, .handle = name, .bytes = (uint64_t)(size)}; \
    stream = gs_launch_begin(&ticket, &work, stream, per_thread);                       \
    GIVE(GS_CALL(symbol) arguments, stream);                                            \
  }
#define COPY(symbol, thread, name, size, parameters, arguments) \
  COPY_ONE(symbol, false, name, size, parameters, arguments)    \
  COPY_ONE(thread, true, name, size, parameters, arguments)

#define TO_HOST "copy to host"
#define FROM_HOST "copy from host"
#define ON_CARD "copy on card"
#define ANY_WAY "copy"
#define SET "memset"
#define FETCH "prefetch"

COPY(cuMemcpyAsync, cuMemcpyAsync_ptsz, ANY_WAY, bytes,
     (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream))
COPY(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, ANY_WAY, bytes,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream),
     (to, to_context, from, from_context, bytes, stream))
COPY(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, FROM_HOST, bytes,
     (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, stream))
/* Most drivers complete a copy to pageable host memory before they return. They wait for all pending work of the
 * stream, which may wait for work that another thread is about to launch on the same stream. */
static bool may_block(const struct gs_ticket *ticket, const void *host) {
  unsigned int type;
  return ticket->stream && !ticket->captured &&
         GS_CALL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host);
}

#define TO_HOST_ONE(symbol, per_thread)                                                   \
  GS_HOOK(symbol)(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {            \
    struct gs_ticket ticket;                                                              \
    struct gs_work work = {.kind = GS_COPY, .handle = TO_HOST, .bytes = (uint64_t)bytes}; \
    stream = gs_launch_begin(&ticket, &work, stream, per_thread);                         \
    if (GS_LIKELY(!may_block(&ticket, to)) || !gs_launch_unlock(&ticket, &stream))        \
      GIVE(GS_CALL(symbol)(to, from, bytes, stream), stream);                             \
    CUresult result = GS_CALL(symbol)(to, from, bytes, stream);                           \
    gs_launch_relock(&ticket, stream);                                                    \
    return gs_launch_end(&ticket, result);                                                \
  }
TO_HOST_ONE(cuMemcpyDtoHAsync_v2, false)
TO_HOST_ONE(cuMemcpyDtoHAsync_v2_ptsz, true)
COPY(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, ON_CARD, bytes,
     (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream))
COPY(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz, FROM_HOST, bytes,
     (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream), (to, offset, from, bytes, stream))
COPY(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz, TO_HOST, bytes,
     (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream), (to, from, offset, bytes, stream))
COPY(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, ANY_WAY, 0, (const CUDA_MEMCPY2D *copy, CUstream stream),
     (copy, stream))
COPY(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, ANY_WAY, 0, (const CUDA_MEMCPY3D *copy, CUstream stream),
     (copy, stream))
COPY(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, ANY_WAY, 0, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
     (copy, stream))
COPY(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, ANY_WAY, 0,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes, size_t *indexes,
      size_t attribute_count, size_t *failed, CUstream stream),
     (to, from, bytes, count, attributes, indexes, attribute_count, failed, stream))
COPY(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, ANY_WAY, 0,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes, size_t *indexes,
      size_t attribute_count, CUstream stream),
     (to, from, bytes, count, attributes, indexes, attribute_count, stream))

COPY(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, ANY_WAY, 0,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream stream),
     (count, copies, failed, flags, stream))
COPY(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, ANY_WAY, 0,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream),
     (count, copies, flags, stream))
COPY(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz, ANY_WAY, bytes,
     (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *attributes, CUstream stream),
     (to, from, bytes, attributes, stream))
COPY(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz, ANY_WAY, 0,
     (CUDA_MEMCPY3D_BATCH_OP * copy, unsigned long long flags, CUstream stream), (copy, flags, stream))
COPY(cuFabricCpyBatchAsync, cuFabricCpyBatchAsync_ptsz, ANY_WAY, 0,
     (size_t count, CUDA_FABRIC_COPY_BATCH_OP *copies, unsigned long long flags, CUstream stream),
     (count, copies, flags, stream))
COPY(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz, "decompress", 0,
     (CUmemDecompressParams * pieces, size_t count, unsigned int flags, size_t *failed, CUstream stream),
     (pieces, count, flags, failed, stream))

COPY(cuMemsetD8Async, cuMemsetD8Async_ptsz, SET, count,
     (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), (to, value, count, stream))
COPY(cuMemsetD16Async, cuMemsetD16Async_ptsz, SET, 2 * count,
     (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), (to, value, count, stream))
COPY(cuMemsetD32Async, cuMemsetD32Async_ptsz, SET, 4 * count,
     (CUdeviceptr to, unsigned int value, size_t count, CUstream stream), (to, value, count, stream))
COPY(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, SET, width *height,
     (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
     (to, pitch, value, width, height, stream))
COPY(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, SET, 2 * width * height,
     (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
     (to, pitch, value, width, height, stream))
COPY(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, SET, 4 * width * height,
     (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),
     (to, pitch, value, width, height, stream))
COPY(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, FETCH, bytes,
     (CUdeviceptr from, size_t bytes, CUdevice device, CUstream stream), (from, bytes, device, stream))
COPY(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, FETCH, bytes,
     (CUdeviceptr from, size_t bytes, CUmemLocation where, unsigned int flags, CUstream stream),
     (from, bytes, where, flags, stream))
COPY(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, FETCH, 0,
     (CUdeviceptr * from, size_t *bytes, size_t count, CUmemLocation *where, size_t *indexes, size_t where_count,
      unsigned long long flags, CUstream stream),
     (from, bytes, count, where, indexes, where_count, flags, stream))
COPY(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, FETCH, 0,
     (CUdeviceptr * from, size_t *bytes, size_t count, unsigned long long flags, CUstream stream),
     (from, bytes, count, flags, stream))
COPY(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz, FETCH, 0,
     (CUdeviceptr * from, size_t *bytes, size_t count, CUmemLocation *where, size_t *indexes, size_t where_count,
      unsigned long long flags, CUstream stream),
     (from, bytes, count, where, indexes, where_count, flags, stream))
