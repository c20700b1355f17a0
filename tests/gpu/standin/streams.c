/* Streams and events. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>

#define SI_THREAD_STREAMS 16

static __thread struct si_stream *thread_streams[SI_THREAD_STREAMS];

struct si_stream *si_stream_new(struct si_context *context, unsigned flags, int priority)
{
    struct si_stream *stream = calloc(1, sizeof *stream);
    if (!stream) abort();
    stream->magic = SI_STREAM_MAGIC;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->allowed = context->allowed;
    stream->id = ++si_me.ids;
    stream->next = si_me.streams;
    si_me.streams = stream;
    return stream;
}

static struct si_stream *stream_of_thread(struct si_context *context)
{
    int i = 0;
    while (i < SI_THREAD_STREAMS - 1 && thread_streams[i] && thread_streams[i]->context != context) i++;
    if (thread_streams[i] && thread_streams[i]->context == context) return thread_streams[i];
    pthread_mutex_lock(&si_me.lock);
    thread_streams[i] = si_stream_new(context, context->is_green ? CU_STREAM_NON_BLOCKING : 0, 0);
    thread_streams[i]->is_thread = true;
    pthread_mutex_unlock(&si_me.lock);
    return thread_streams[i];
}

/* Handle 0 is the default stream of the call variant; default streams are those of the current context. */
CUresult si_stream_of(CUstream handle, struct si_stream **stream)
{
    struct si_context *context;
    if (!handle) handle = si_default_stream;
    if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        SI_TRY(si_ready());
        if (handle->magic != SI_STREAM_MAGIC || handle->is_destroyed) return CUDA_ERROR_INVALID_HANDLE;
        *stream = handle;
        return CUDA_SUCCESS;
    }
    SI_TRY(si_need_context(&context));
    *stream = handle == CU_STREAM_LEGACY ? context->legacy : stream_of_thread(context);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    struct si_context *context;
    SI_TRY(si_need_context(&context));
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    if (context->is_green) flags |= CU_STREAM_NON_BLOCKING;
    pthread_mutex_lock(&si_me.lock);
    *stream = si_stream_new(context, flags, priority);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

/* Real drivers may crash here. */
static void must_not_be_awaited(const struct si_stream *stream)
{
    if (!stream->waiters) return;
    fprintf(stderr, "a stream was destroyed while a thread waited for it\n");
    abort();
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct si_stream *stream;
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    must_not_be_awaited(stream);
    si_capture_end_with_locked(stream);
    stream->is_destroyed = true;
    pthread_mutex_unlock(&si_me.lock);
    si_wake_worker();
    return CUDA_SUCCESS;
}

/* Work of the stream; for the legacy stream also that of the blocking streams that it waits for. */
static bool concerns(const struct si_stream *stream, const struct si_stream *other)
{
    if (other == stream) return true;
    return stream->is_legacy && other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING);
}

static CUresult cuStreamSynchronize_in(CUstream handle)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_refuses_locked(stream);
    if (result == CUDA_SUCCESS) result = si_capture_unsafe_locked();
    uint64_t seq = si_me.seq;
    stream->waiters++;
    for (struct si_stream *other = si_me.streams; other && result == CUDA_SUCCESS; other = other->next) {
        if (concerns(stream, other)) si_wait_locked(other, NULL, seq);
    }
    stream->waiters--;
    if (result == CUDA_SUCCESS) result = si_me.error;
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuStreamSynchronize, _ptsz, (CUstream stream), (stream))

static CUresult cuStreamQuery_in(CUstream handle)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_refuses_locked(stream);
    if (result == CUDA_SUCCESS) result = si_me.error;
    for (struct si_stream *other = si_me.streams; other && result == CUDA_SUCCESS; other = other->next) {
        if (concerns(stream, other) && !si_is_idle_locked(other)) result = CUDA_ERROR_NOT_READY;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuStreamQuery, _ptsz, (CUstream stream), (stream))

static CUresult cuStreamGetPriority_in(CUstream handle, int *priority)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}
SI_EXPORT_BOTH(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority), (stream, priority))

static CUresult cuStreamGetFlags_in(CUstream handle, unsigned *flags)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = CUDA_SUCCESS;
    if (stream->capture) result = si_capture_invalidate_locked(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else *flags = stream->flags;
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned *flags), (stream, flags))

static CUresult cuStreamGetId_in(CUstream handle, unsigned long long *id)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    *id = stream->id;
    return CUDA_SUCCESS;
}
SI_EXPORT_BOTH(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id), (stream, id))

static CUresult cuStreamGetCtx_in(CUstream handle, CUcontext *context)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    *context = stream->context;
    return CUDA_SUCCESS;
}
SI_EXPORT_BOTH(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *context), (stream, context))

static CUresult call_host(CUstream handle, CUhostFn function, CUstreamCallback callback, void *data)
{
    if (!function && !callback) return CUDA_ERROR_INVALID_VALUE;
    struct si_op *op = si_op_new(SI_HOST);
    op->host.function = function;
    op->host.callback = callback;
    op->host.handle = handle;
    op->host.data = data;
    return si_submit(handle, op, NULL);
}

static CUresult cuLaunchHostFunc_in(CUstream stream, CUhostFn function, void *data)
{
    return call_host(stream, function, NULL, data);
}
SI_EXPORT_BOTH(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data), (stream, function, data))

static CUresult cuStreamAddCallback_in(CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : call_host(stream, NULL, callback, data);
}
SI_EXPORT_BOTH(cuStreamAddCallback, _ptsz, (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
               (stream, callback, data, flags))

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    struct si_context *context;
    SI_TRY(si_need_context(&context));
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    if (!*event) abort();
    (*event)->context = context;
    (*event)->generation = context->generation;
    (*event)->magic = SI_EVENT_MAGIC;
    (*event)->flags = flags;
    __atomic_add_fetch(&si_me.events, 1, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
}

/* Events end with their context. Later use is undefined with a real driver, so here the process ends. */
static CUresult need_event(const struct si_event *event)
{
    SI_TRY(si_ready());
    if (!event || event->magic != SI_EVENT_MAGIC) return CUDA_ERROR_INVALID_HANDLE;
    if (event->context && event->generation != event->context->generation) {
        fputs("stand-in: an event was used after its context\n", stderr);
        abort();
    }
    return CUDA_SUCCESS;
}

/* An event of the primary context may also be recorded in green contexts. */
static bool may_record(const struct si_event *event, const struct si_stream *stream)
{
    return event->context == stream->context || (event->context->is_primary && stream->context->is_green) ||
           (event->context->is_green && !stream->context->is_destroyed);
}

/* The object is not freed, so that use of a destroyed handle is detected. */
CUresult cuEventDestroy_v2(CUevent event)
{
    SI_TRY(need_event(event));
    pthread_mutex_lock(&si_me.lock);
    si_mark_drop(event->mark);
    event->mark = NULL;
    event->magic = 0;
    si_nodes_clear(&event->deps);
    __atomic_sub_fetch(&si_me.events, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult standinCountAlive(size_t *streams, size_t *events)
{
    SI_TRY(si_ready());
    pthread_mutex_lock(&si_me.lock);
    *streams = 0;
    for (const struct si_stream *each = si_me.streams; each; each = each->next) *streams += !each->is_destroyed;
    *events = si_me.events;
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult si_record_locked(struct si_event *event, struct si_stream *stream, unsigned flags)
{
    if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL)) return si_capture_record_locked(stream, event);
    struct si_op *op = si_op_new(SI_RECORD);
    struct si_mark *mark = si_mark_new(), *old = event->mark;
    op->mark = mark;
    mark->holders++;
    CUresult result = si_submit_locked(stream, op);
    if (result != CUDA_SUCCESS) {
        si_mark_drop(mark);
        return result;
    }
    event->mark = mark;
    event->capture = NULL;
    si_mark_drop(old);
    return CUDA_SUCCESS;
}

CUresult si_await_locked(struct si_stream *stream, struct si_event *event)
{
    bool handled = false;
    CUresult result = si_capture_await_locked(stream, event, &handled);
    if (handled || result != CUDA_SUCCESS) return result;
    if (!event->mark) return CUDA_SUCCESS;
    struct si_op *op = si_op_new(SI_WAIT);
    op->mark = event->mark;
    op->mark->holders++;
    return si_submit_locked(stream, op);
}

static CUresult cuEventRecordWithFlags_in(CUevent event, CUstream handle, unsigned flags)
{
    struct si_stream *stream;
    SI_TRY(need_event(event));
    SI_TRY(si_stream_of(handle, &stream));
    if (!may_record(event, stream)) return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_record_locked(event, stream, flags);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))

static CUresult cuEventRecord_in(CUevent event, CUstream stream) { return cuEventRecordWithFlags_in(event, stream, 0); }
SI_EXPORT_BOTH(cuEventRecord, _ptsz, (CUevent event, CUstream stream), (event, stream))

static CUresult cuStreamWaitEvent_in(CUstream handle, CUevent event, unsigned flags)
{
    struct si_stream *stream;
    (void)flags;
    SI_TRY(need_event(event));
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_await_locked(stream, event);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))

CUresult cuEventSynchronize(CUevent event)
{
    SI_TRY(need_event(event));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_captured_locked(event) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
    struct si_mark *mark = event->mark;
    if (result == CUDA_SUCCESS && mark) {
        mark->holders++;
        while (!mark->done && si_me.error == CUDA_SUCCESS) pthread_cond_wait(&si_me.changed, &si_me.lock);
        si_mark_drop(mark);
        si_pools_trim_locked();
        result = si_me.error;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuEventQuery(CUevent event)
{
    SI_TRY(need_event(event));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_unsafe_locked(); /* a query may wait, so it invalidates captures */
    if (result == CUDA_SUCCESS) result = si_me.error;
    if (si_captured_locked(event)) result = CUDA_ERROR_CAPTURED_EVENT;
    else if (result == CUDA_SUCCESS && event->mark && !event->mark->done) result = CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    SI_TRY(need_event(start));
    SI_TRY(need_event(end));
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_me.error;
    if (!start->mark || !end->mark) result = CUDA_ERROR_INVALID_HANDLE;
    else if (!start->mark->done || !end->mark->done) result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS) *ms = (float)((double)(end->mark->time_ns - start->mark->time_ns) / 1e6);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) { return cuEventElapsedTime(ms, start, end); }
