/* Copies and memsets. They take time by their size and use no SMs. Concurrent copies do not slow each other down. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

#define SI_HOST_BYTES_PER_US 20000.0   /* about PCIe 5 */
#define SI_CARD_BYTES_PER_US 2000000.0 /* read and write of HBM */

enum direction { HOST_TO_CARD, CARD_TO_HOST, CARD_TO_CARD };

struct transfer { void *to; const void *from; size_t width, height, to_pitch, from_pitch; };

static bool is_known(const void *address, size_t bytes) { return si_find_locked(address, bytes) != NULL; }

static size_t span(size_t width, size_t height, size_t pitch) { return height ? (height - 1) * pitch + width : 0; }

/* Device addresses are checked in the call, so a bad address makes the call fail, as for most real copies. */
static bool check(const struct transfer *t, enum direction way)
{
    if (way != HOST_TO_CARD && !is_known(t->from, span(t->width, t->height, t->from_pitch))) return false;
    return way == CARD_TO_HOST || is_known(t->to, span(t->width, t->height, t->to_pitch));
}

/* Pageable host memory is read before the call returns, as with the real driver. */
static void stage(struct si_op *op, const struct transfer *t)
{
    size_t bytes = span(t->width, t->height, t->from_pitch);
    if (is_known(t->from, bytes)) return;
    op->copy.staged = malloc(bytes);
    if (!op->copy.staged) abort();
    memcpy(op->copy.staged, t->from, bytes);
}

static struct si_op *op_for(const struct transfer *t, enum direction way)
{
    struct si_op *op = si_op_new(SI_COPY);
    op->copy.to = t->to;
    op->copy.from = t->from;
    op->copy.width = t->width;
    op->copy.height = t->height;
    op->copy.to_pitch = t->to_pitch;
    op->copy.from_pitch = t->from_pitch;
    double speed = way == CARD_TO_CARD ? SI_CARD_BYTES_PER_US : SI_HOST_BYTES_PER_US;
    op->duration_ns = (int64_t)(1000.0 * (double)(t->width * t->height) / speed);
    return op;
}

static bool is_pageable_target(const struct transfer *t, enum direction way)
{
    return way == CARD_TO_HOST && !is_known(t->to, span(t->width, t->height, t->to_pitch));
}

static CUresult transfer(const struct transfer *t, enum direction way, CUstream handle, bool wait)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (!t->width || !t->height) return CUDA_SUCCESS;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = check(t, way) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && wait) result = si_capture_refuses_locked(stream);
    if (result == CUDA_SUCCESS && wait) result = si_capture_unsafe_locked();
    if (result == CUDA_SUCCESS) {
        bool captured = stream->capture != NULL;
        struct si_op *op = op_for(t, way);
        if (way == HOST_TO_CARD && !captured) stage(op, t);
        wait |= !captured && is_pageable_target(t, way);
        result = si_submit_locked(stream, op);
        if (result == CUDA_SUCCESS && wait && !si_wait_locked(stream, NULL, si_me.seq)) result = si_me.error;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult line(void *to, const void *from, size_t bytes, enum direction way, CUstream stream, bool wait)
{
    struct transfer t = {to, from, bytes, 1, bytes, bytes};
    return transfer(&t, way, stream, wait);
}

static void *at(CUdeviceptr address) { return (void *)(uintptr_t)address; }

static bool is_on_host(const void *address)
{
    pthread_mutex_lock(&si_me.lock);
    const struct si_alloc *alloc = si_find_locked(address, 1);
    bool host = !alloc || alloc->memory == SI_PINNED || alloc->memory == SI_REGISTERED;
    pthread_mutex_unlock(&si_me.lock);
    return host;
}

static enum direction which_way(bool from_host, bool to_host)
{
    if (from_host) return HOST_TO_CARD;
    return to_host ? CARD_TO_HOST : CARD_TO_CARD;
}

/* The addresses determine the direction of the copy. */
static CUresult unified(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool wait)
{
    SI_TRY(si_need_context(NULL));
    bool from_host = is_on_host(at(from)), to_host = is_on_host(at(to));
    if (from_host && to_host) return CUDA_ERROR_INVALID_VALUE;
    return line(at(to), at(from), bytes, which_way(from_host, to_host), stream, wait);
}

static CUresult cuMemcpy_in(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return unified(to, from, bytes, 0, true);
}
SI_EXPORT_BOTH(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))

static CUresult cuMemcpyAsync_in(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return unified(to, from, bytes, stream, false);
}
SI_EXPORT_BOTH(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream))

static CUresult cuMemcpyHtoD_v2_in(CUdeviceptr to, const void *from, size_t bytes)
{
    return line(at(to), from, bytes, HOST_TO_CARD, 0, true);
}
SI_EXPORT_BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))

static CUresult cuMemcpyDtoH_v2_in(void *to, CUdeviceptr from, size_t bytes)
{
    return line(to, at(from), bytes, CARD_TO_HOST, 0, true);
}
SI_EXPORT_BOTH(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))

/* Copies within the card are asynchronous, as documented for the real driver. */
static CUresult cuMemcpyDtoD_v2_in(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return line(at(to), at(from), bytes, CARD_TO_CARD, 0, false);
}
SI_EXPORT_BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))

static CUresult cuMemcpyHtoDAsync_v2_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return line(at(to), from, bytes, HOST_TO_CARD, stream, false);
}
SI_EXPORT_BOTH(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
               (to, from, bytes, stream))

static CUresult cuMemcpyDtoHAsync_v2_in(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return line(to, at(from), bytes, CARD_TO_HOST, stream, false);
}
SI_EXPORT_BOTH(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream))

static CUresult cuMemcpyDtoDAsync_v2_in(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return line(at(to), at(from), bytes, CARD_TO_CARD, stream, false);
}
SI_EXPORT_BOTH(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream))

static char *corner(int type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch)
{
    const char *base = type == CU_MEMORYTYPE_HOST ? host : at(device);
    return (char *)(uintptr_t)base + y * pitch + x;
}

static CUresult rectangle(const CUDA_MEMCPY2D *c, CUstream stream, bool wait)
{
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    bool has_array = c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    if (has_array) return CUDA_ERROR_NOT_SUPPORTED;
    size_t from_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
    size_t to_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
    struct transfer t = {
        .to = corner(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, to_pitch),
        .from = corner(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, from_pitch),
        .width = c->WidthInBytes,
        .height = c->Height,
        .to_pitch = to_pitch,
        .from_pitch = from_pitch,
    };
    bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    if (from_host && to_host) return CUDA_ERROR_INVALID_VALUE;
    return transfer(&t, which_way(from_host, to_host), stream, wait);
}

static CUresult cuMemcpy2D_v2_in(const CUDA_MEMCPY2D *copy) { return rectangle(copy, 0, true); }
SI_EXPORT_BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy), (copy))

static CUresult cuMemcpy2DAsync_v2_in(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return rectangle(copy, stream, false);
}
SI_EXPORT_BOTH(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))

static CUresult fill(CUdeviceptr to, uint64_t value, uint32_t width, size_t count, CUstream stream)
{
    struct si_stream *where;
    SI_TRY(si_stream_of(stream, &where));
    if (!count) return CUDA_SUCCESS;
    pthread_mutex_lock(&si_me.lock);
    bool known = is_known(at(to), count * width);
    pthread_mutex_unlock(&si_me.lock);
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    struct si_op *op = si_op_new(SI_SET);
    op->set.to = to;
    op->set.value = value;
    op->set.width = width;
    op->set.count = count;
    op->duration_ns = (int64_t)(1000.0 * (double)(count * width) / SI_CARD_BYTES_PER_US);
    return si_submit(stream, op, NULL);
}

/* Calls without a stream do not wait either, because memsets of device memory are asynchronous. */
#define SI_FILL(bits, type) \
    static CUresult cuMemsetD##bits##_v2_in(CUdeviceptr to, type value, size_t count) \
    { \
        return fill(to, value, bits / 8, count, 0); \
    } \
    SI_EXPORT_BOTH(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t count), (to, value, count)) \
    static CUresult cuMemsetD##bits##Async_in(CUdeviceptr to, type value, size_t count, CUstream stream) \
    { \
        return fill(to, value, bits / 8, count, stream); \
    } \
    SI_EXPORT_BOTH(cuMemsetD##bits##Async, _ptsz, (CUdeviceptr to, type value, size_t count, CUstream stream), \
                   (to, value, count, stream))
SI_FILL(8, unsigned char)
SI_FILL(16, unsigned short)
SI_FILL(32, unsigned)

/* Waits for a memory word, and writes one, in stream order. */
static CUresult await_value(CUstream stream, CUdeviceptr from, uint64_t value, uint32_t width, unsigned how)
{
    struct si_op *op = si_op_new(SI_AWAIT_VALUE);
    op->set.to = from;
    op->set.value = value;
    op->set.width = width;
    op->set.how = how;
    return si_submit(stream, op, NULL);
}

#define SI_VALUE(bits, type) \
    static CUresult cuStreamWaitValue##bits##_v2_in(CUstream stream, CUdeviceptr from, type value, unsigned flags) \
    { \
        return await_value(stream, from, value, bits / 8, flags); \
    } \
    SI_EXPORT_BOTH(cuStreamWaitValue##bits##_v2, _ptsz, \
                   (CUstream stream, CUdeviceptr from, type value, unsigned flags), \
                   (stream, from, value, flags)) \
    static CUresult cuStreamWriteValue##bits##_v2_in(CUstream stream, CUdeviceptr to, type value, unsigned flags) \
    { \
        return flags > 1 ? CUDA_ERROR_INVALID_VALUE : fill(to, value, bits / 8, 1, stream); \
    } \
    SI_EXPORT_BOTH(cuStreamWriteValue##bits##_v2, _ptsz, \
                   (CUstream stream, CUdeviceptr to, type value, unsigned flags), \
                   (stream, to, value, flags))
SI_VALUE(32, uint32_t)
SI_VALUE(64, uint64_t)
