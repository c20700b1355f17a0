/* Dependencies of captured work: sets of nodes that streams and events carry through a capture. A stream that waits
 * for an event depends on its own nodes and on those of the event. Redundant nodes are not removed. */
#include "standin.h"

#include <stdlib.h>

void si_nodes_clear(struct si_nodes *nodes)
{
    free(nodes->all);
    *nodes = (struct si_nodes){0};
}

static bool has(const struct si_nodes *nodes, const struct si_op *node)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->all[i] == node) return true;
    }
    return false;
}

static void add(struct si_nodes *nodes, struct si_op *node)
{
    if (has(nodes, node)) return;
    if (nodes->count == nodes->capacity) {
        nodes->capacity = nodes->capacity ? 2 * nodes->capacity : 4;
        nodes->all = realloc(nodes->all, nodes->capacity * sizeof *nodes->all);
        if (!nodes->all) abort();
    }
    nodes->all[nodes->count++] = node;
}

void si_nodes_add(struct si_nodes *nodes, const struct si_nodes *more)
{
    for (size_t i = 0; i < more->count; i++) add(nodes, more->all[i]);
}

void si_nodes_set(struct si_nodes *nodes, const struct si_nodes *to)
{
    if (nodes == to) return;
    nodes->count = 0;
    si_nodes_add(nodes, to);
}

void si_nodes_replace(struct si_nodes *nodes, struct si_op *only)
{
    nodes->count = 0;
    add(nodes, only);
}

static void mark_all_before(const struct si_nodes *nodes, uint64_t mark)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->all[i]->visited == mark) continue;
        nodes->all[i]->visited = mark;
        mark_all_before(&nodes->all[i]->after, mark);
    }
}

bool si_nodes_include(const struct si_nodes *last, const struct si_nodes *some)
{
    static uint64_t mark;
    mark_all_before(last, ++mark);
    for (size_t i = 0; i < some->count; i++) {
        if (some->all[i]->visited != mark) return false;
    }
    return true;
}

static CUresult cuStreamUpdateCaptureDependencies_v2_in(CUstream handle, CUgraphNode *nodes, const void *edges,
                                                        size_t count, unsigned flags)
{
    struct si_stream *stream;
    struct si_nodes given = {(struct si_op **)nodes, count, count};
    (void)edges;
    SI_TRY(si_stream_of(handle, &stream));
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes)) return CUDA_ERROR_INVALID_VALUE;
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    pthread_mutex_lock(&si_me.lock);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) si_nodes_set(&stream->deps, &given);
    else si_nodes_add(&stream->deps, &given);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}
SI_EXPORT_BOTH(cuStreamUpdateCaptureDependencies_v2, _ptsz,
               (CUstream stream, CUgraphNode *nodes, const void *edges, size_t count, unsigned flags),
               (stream, nodes, edges, count, flags))

static CUresult cuStreamUpdateCaptureDependencies_in(CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags)
{
    return cuStreamUpdateCaptureDependencies_v2_in(stream, nodes, NULL, count, flags);
}
SI_EXPORT_BOTH(cuStreamUpdateCaptureDependencies, _ptsz,
               (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags), (stream, nodes, count, flags))
