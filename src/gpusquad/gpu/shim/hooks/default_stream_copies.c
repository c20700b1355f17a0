/* The hooks of synchronous copies and memsets. The driver runs them on the caller's default stream, so that stream
 * moves back first. A per-thread default stream leaves its own stream again at once, because other threads cannot name
 * it. */
#include "gate/gate.h"

static struct gs_stream *acquire_own(bool per_thread) {
  if (!gs_attached() || gs_is_uncontended()) return NULL;
  if (GS_PEEK(gs_active_captures) && gs_capturing(NULL, per_thread)) return NULL;
  struct gs_stream *held = gs_stream_of(NULL, per_thread);
  if (held) gs_stream_acquire_own(held);
  return held;
}

static void move_again(struct gs_stream *held) {
  if (held->kind != GS_PER_THREAD) return;
  gs_stream_acquire(held);
  gs_stream_release(held);
}

static CUresult release_own(struct gs_stream *held, CUresult result) {
  if (!held) return result;
  gs_stream_release(held);
  move_again(held);
  return result;
}

#define DEFAULT_ONE(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                 \
    struct gs_stream *held = acquire_own(per_thread);          \
    return release_own(held, GS_CALL(symbol) arguments);       \
  }
/* A copy to the host is complete when it returns, so later work of this thread needs no order. The copy may wait for
 * work that other threads are about to launch, so no lock is held. */
#define TO_HOST_ONE(symbol, per_thread, parameters, arguments) \
  GS_HOOK(symbol) parameters {                                 \
    struct gs_stream *held = acquire_own(per_thread);          \
    if (held) gs_stream_release(held);                         \
    CUresult result = GS_CALL(symbol) arguments;               \
    if (held) move_again(held);                                \
    return result;                                             \
  }
#define TO_HOST(symbol, thread, parameters, arguments) \
  TO_HOST_ONE(symbol, false, parameters, arguments)    \
  TO_HOST_ONE(thread, true, parameters, arguments)
#define DEFAULT(symbol, thread, parameters, arguments) \
  DEFAULT_ONE(symbol, false, parameters, arguments)    \
  DEFAULT_ONE(thread, true, parameters, arguments)

DEFAULT(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyPeer, cuMemcpyPeer_ptds,
        (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
        (to, to_context, from, from_context, bytes))
DEFAULT(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))
TO_HOST(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFAULT(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
        (to, offset, from, bytes))
DEFAULT(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
        (to, from, offset, bytes))
DEFAULT(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, (CUarray to, size_t offset, const void *from, size_t bytes),
        (to, offset, from, bytes))
TO_HOST(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *to, CUarray from, size_t offset, size_t bytes),
        (to, from, offset, bytes))
DEFAULT(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
        (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
        (to, to_offset, from, from_offset, bytes))
DEFAULT(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
DEFAULT(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
DEFAULT(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), (copy))
DEFAULT(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *copy), (copy))
DEFAULT(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count))
DEFAULT(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr to, unsigned short value, size_t count), (to, value, count))
DEFAULT(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr to, unsigned int value, size_t count), (to, value, count))
DEFAULT(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
        (to, pitch, value, width, height))
DEFAULT(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
        (to, pitch, value, width, height))
DEFAULT(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,
        (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
        (to, pitch, value, width, height))
