/* Stream capture: work on a captured stream, and on streams that joined by waiting for it, goes into a graph. The
 * dependencies are kept separately (edges.c), for programs that query them. */
#include "standin.h"

#include <stdlib.h>

struct si_capture {
    unsigned long long id;
    int mode;
    bool invalid, ended;
    pthread_t thread;
    struct si_stream *origin;
    struct si_graph *graph;
    bool to_graph; /* into a graph of the program */
    struct si_nodes orphaned; /* dependencies of destroyed streams */
};

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult si_capture_add_locked(struct si_stream *stream, struct si_op *op)
{
    struct si_capture *capture = stream->capture;
    if (capture->invalid || op->kind == SI_POOL_FREE) {
        CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_NOT_SUPPORTED;
        si_op_drop(op);
        return result;
    }
    op->stream = stream;
    if (!op->from_graph) {
        op->allowed = stream->allowed;
        op->context = stream->context;
    }
    op->from_graph = true;
    si_nodes_set(&op->after, &stream->deps);
    si_nodes_replace(&stream->deps, op);
    si_graph_append_locked(capture->graph, op);
    stream->unjoined = stream != capture->origin;
    return CUDA_SUCCESS;
}

CUresult si_capture_record_locked(struct si_stream *stream, struct si_event *event)
{
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->capture_id = stream->capture->id;
    event->captured_in = stream;
    si_nodes_set(&event->deps, &stream->deps);
    return CUDA_SUCCESS;
}

bool si_captured_locked(const struct si_event *event) { return event->capture && !event->capture->ended; }

/* A stream that waits for a captured event joins the capture. */
CUresult si_capture_await_locked(struct si_stream *stream, struct si_event *event, bool *handled)
{
    *handled = true;
    if (!si_captured_locked(event)) {
        *handled = stream->capture != NULL;
        if (!stream->capture) return CUDA_SUCCESS;
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (!stream->capture) {
        stream->capture = event->capture;
        stream->unjoined = true;
    }
    si_nodes_add(&stream->deps, &event->deps);
    if (event->captured_in != stream) event->captured_in->unjoined = false;
    return CUDA_SUCCESS;
}

/* A call that a captured stream refuses invalidates the capture. */
CUresult si_capture_invalidate_locked(struct si_stream *stream, CUresult result)
{
    if (!stream->capture) return result;
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture->invalid = true;
    return result;
}

/* For calls that are never allowed on a captured stream. */
CUresult si_capture_refuses_locked(struct si_stream *stream)
{
    if (stream->capture) return si_capture_invalidate_locked(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return si_capture_legacy_locked(stream);
}

/* Work on the legacy stream invalidates captures of blocking streams, because it would wait for them. */
CUresult si_capture_legacy_locked(const struct si_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream->is_legacy || !si_me.captures) return CUDA_SUCCESS;
    for (struct si_stream *other = si_me.streams; other; other = other->next) {
        if (!other->capture || other->context != stream->context || other->flags & CU_STREAM_NON_BLOCKING) continue;
        other->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
}

/* Calls that might wait for captured work (allocation, context synchronization) are refused unless relaxed. */
CUresult si_capture_unsafe_locked(void)
{
    if (!si_me.captures || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    for (struct si_stream *each = si_me.streams; each; each = each->next) {
        struct si_capture *capture = each->capture;
        if (!capture || capture->origin != each || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        bool concerns_us = pthread_equal(capture->thread, pthread_self());
        if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
            concerns_us = true;
        }
        if (!concerns_us) continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    int old = thread_mode;
    if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream handle, CUgraph graph, const struct si_nodes *after, int mode)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = stream->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        struct si_capture *capture = calloc(1, sizeof *capture);
        if (!capture) abort();
        *capture = (struct si_capture){.id = ++si_me.ids,
                                       .mode = mode,
                                       .thread = pthread_self(),
                                       .origin = stream,
                                       .graph = graph ? graph : si_graph_new(),
                                       .to_graph = graph != NULL};
        stream->capture = capture;
        si_nodes_set(&stream->deps, after);
        si_me.captures++;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult cuStreamBeginCapture_v2_in(CUstream stream, int mode)
{
    return begin_capture(stream, NULL, &(struct si_nodes){0}, mode);
}
SI_EXPORT_BOTH(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, int mode), (stream, mode))

static CUresult cuStreamBeginCaptureToGraph_in(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                               const void *edges, size_t count, int mode)
{
    (void)edges;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    return begin_capture(stream, graph, &(struct si_nodes){(struct si_op **)after, count, count}, mode);
}
SI_EXPORT_BOTH(cuStreamBeginCaptureToGraph, _ptsz,
               (CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, int mode),
               (stream, graph, after, edges, count, mode))

/* A stream is joined if the origin depends on all of its dependencies. */
static bool is_unjoined(const struct si_stream *stream, const struct si_capture *capture)
{
    if (stream == capture->origin) return false;
    return stream->unjoined || !si_nodes_include(&capture->origin->deps, &stream->deps);
}

/* Removes all streams from the capture. Returns true if one of them was not joined. */
static bool release_streams(const struct si_capture *capture)
{
    bool unjoined = false;
    for (struct si_stream *each = si_me.streams; each; each = each->next) {
        if (each->capture == capture) unjoined |= is_unjoined(each, capture);
    }
    for (struct si_stream *each = si_me.streams; each; each = each->next) {
        if (each->capture != capture) continue;
        each->capture = NULL;
        each->unjoined = false;
        si_nodes_clear(&each->deps);
    }
    return unjoined;
}

static CUresult end_capture(struct si_capture *capture, CUgraph *graph)
{
    bool unjoined = !si_nodes_include(&capture->origin->deps, &capture->orphaned);
    unjoined |= release_streams(capture);
    si_nodes_clear(&capture->orphaned);
    capture->ended = true; /* not freed: events still point to it */
    si_me.captures--;
    *graph = NULL;
    if (capture->invalid || unjoined) {
        if (!capture->to_graph) si_graph_drop_locked(capture->graph);
        return capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    *graph = capture->graph;
    return CUDA_SUCCESS;
}

/* Destroying the origin ends the capture. Destroying another stream leaves its work unjoined, unless it was joined. */
void si_capture_end_with_locked(struct si_stream *stream)
{
    CUgraph graph = NULL;
    struct si_capture *capture = stream->capture;
    if (!capture) return;
    if (capture->origin != stream) {
        si_nodes_add(&capture->orphaned, &stream->deps);
        stream->capture = NULL;
        return;
    }
    capture->invalid = true;
    end_capture(capture, &graph);
}

static CUresult cuStreamEndCapture_in(CUstream handle, CUgraph *graph)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    struct si_capture *capture = stream->capture;
    CUresult result;
    if (!capture) result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream) result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else result = end_capture(capture, graph);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), (stream, graph))

static CUresult get_capture_info(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_legacy_locked(stream);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream->capture) {
        *status = stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (id) *id = stream->capture->id;
        if (graph) *graph = stream->capture->graph;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult cuStreamIsCapturing_in(CUstream stream, int *status)
{
    return get_capture_info(stream, status, NULL, NULL);
}
SI_EXPORT_BOTH(cuStreamIsCapturing, _ptsz, (CUstream stream, int *status), (stream, status))

static CUresult cuStreamGetCaptureInfo_in(CUstream stream, int *status, cuuint64_t *id)
{
    return get_capture_info(stream, status, id, NULL);
}
SI_EXPORT_BOTH(cuStreamGetCaptureInfo, _ptsz, (CUstream stream, int *status, cuuint64_t *id), (stream, status, id))

static CUresult cuStreamGetCaptureInfo_v3_in(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **dependencies, const void **edges, size_t *count)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    if (dependencies) *dependencies = (const CUgraphNode *)stream->deps.all;
    if (edges) *edges = NULL;
    if (count) *count = stream->deps.count;
    return get_capture_info(handle, status, id, graph);
}
SI_EXPORT_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
               (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                const void **edges, size_t *count),
               (stream, status, id, graph, dependencies, edges, count))

static CUresult cuStreamGetCaptureInfo_v2_in(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **dependencies, size_t *count)
{
    return cuStreamGetCaptureInfo_v3_in(stream, status, id, graph, dependencies, NULL, count);
}
SI_EXPORT_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
               (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                size_t *count),
               (stream, status, id, graph, dependencies, count))
