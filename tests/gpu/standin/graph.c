/* Graphs: lists of captured work in the order it was captured, one of the orders its dependencies allow. Branches
 * therefore run one after the other. Work keeps the SMs of the stream it was captured in, as on a real card. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

struct si_graph { struct si_op *head, *tail; size_t count; };
struct si_graph_exec { struct si_op *head; };

static struct si_op *copy_of(const struct si_op *op)
{
    struct si_op *copy = si_op_new(op->kind);
    *copy = *op;
    copy->next = NULL;
    copy->after = (struct si_nodes){0};
    if (copy->mark) copy->mark->holders++;
    if (op->copy.staged) {
        copy->copy.staged = malloc(op->copy.width);
        if (!copy->copy.staged) abort();
        memcpy(copy->copy.staged, op->copy.staged, op->copy.width);
    }
    return copy;
}

static void drop_list(struct si_op *op)
{
    while (op) {
        struct si_op *next = op->next;
        si_op_drop(op);
        op = next;
    }
}

CUgraph si_graph_new(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph) abort();
    return graph;
}

void si_graph_drop_locked(CUgraph graph)
{
    drop_list(graph->head);
    free(graph);
}

void si_graph_append_locked(CUgraph graph, struct si_op *op)
{
    if (graph->tail) graph->tail->next = op;
    else graph->head = op;
    graph->tail = op;
    graph->count++;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    SI_TRY(si_ready());
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    *graph = si_graph_new();
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    SI_TRY(si_ready());
    if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
    struct si_graph_exec *created = calloc(1, sizeof *created);
    if (!created) abort();
    struct si_op **link = &created->head;
    pthread_mutex_lock(&si_me.lock);
    for (const struct si_op *op = graph->head; op; op = op->next) {
        *link = copy_of(op);
        link = &(*link)->next;
    }
    pthread_mutex_unlock(&si_me.lock);
    *exec = created;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
    (void)error_node, (void)log, (void)log_bytes;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
    return cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SI_TRY(si_ready());
    if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
    size_t given = 0;
    for (struct si_op *op = graph->head; op && nodes && given < *count; op = op->next) nodes[given++] = (CUgraphNode)op;
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
    static const int types[] = {
        [SI_KERNEL] = 0, [SI_COPY] = 1, [SI_SET] = 2, [SI_HOST] = 3, [SI_RECORD] = 7, [SI_WAIT] = 6, [SI_POOL_FREE] = 5,
        [SI_AWAIT_VALUE] = 12, [SI_GRAPH_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SI_GRAPH_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
    };
    if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = types[((const struct si_op *)node)->kind];
    return CUDA_SUCCESS;
}

/* This version of the query cannot report programmatic edges. */
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    size_t edge = 0;
    SI_TRY(si_ready());
    if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
    for (struct si_op *op = graph->head; op; op = op->next) {
        for (size_t i = 0; i < op->after.count; i++, edge++) {
            struct si_op *before = op->after.all[i];
            if (op->kernel.overlaps && before->kind == SI_KERNEL) return CUDA_ERROR_LOSSY_QUERY;
            if (!from || !to || edge >= *count) continue;
            from[edge] = (CUgraphNode)before;
            to[edge] = (CUgraphNode)op;
        }
    }
    *count = edge;
    return CUDA_SUCCESS;
}

/* The behavior of real drivers with graphs of destroyed contexts is undefined. */
static bool has_destroyed_context(const struct si_graph_exec *exec)
{
    for (const struct si_op *op = exec->head; op; op = op->next) {
        if (op->context && op->context->is_destroyed) return true;
    }
    return false;
}

static CUresult cuGraphUpload_in(CUgraphExec exec, CUstream handle)
{
    struct si_stream *stream;
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_graph_map_locked(exec->head, false);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

static CUresult cuGraphLaunch_in(CUgraphExec exec, CUstream handle)
{
    struct si_stream *stream;
    CUresult result = CUDA_SUCCESS;
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    SI_TRY(si_stream_of(handle, &stream));
    if (has_destroyed_context(exec)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    pthread_mutex_lock(&si_me.lock);
    si_wait_for_queue_locked();
    if (stream->capture) result = si_capture_refuses_locked(stream);
    else result = si_graph_map_locked(exec->head, true);
    for (const struct si_op *op = exec->head; op && result == CUDA_SUCCESS; op = op->next) {
        result = si_submit_locked(stream, copy_of(op));
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}
SI_EXPORT_BOTH(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SI_TRY(si_ready());
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    drop_list(exec->head);
    pthread_mutex_unlock(&si_me.lock);
    free(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SI_TRY(si_ready());
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    si_graph_drop_locked(graph);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}
