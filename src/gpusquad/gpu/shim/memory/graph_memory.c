/* Memory that graphs allocate by nodes. The driver maps it when a graph is launched, keeps it afterwards, and shares it
 * between graphs that never run at once. So the account follows the driver's own count. Before a launch there must be
 * room for the least that the graph needs: the bytes at its nodes' addresses, which the driver shares among nodes that
 * are not alive at once. Graphs that run at once may take more. That shows after the launch, and then no graph that
 * allocates is launched until usage is within the quota again.
 *
 * A process that never added such a node skips all of this. */
#include <pthread.h>
#include <stdlib.h>

#include "memory/memory.h"

struct span {
  uint64_t from, to;
};

struct spans {
  struct span *all;
  size_t count, room;
};

static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t has_allocations;      /* 1: such a node was added */
static uint64_t charged_bytes;  /* for graphs */
static uint64_t needed_bytes;   /* by the largest active launch */
static uint32_t launches;       /* active */
static bool exceeded;           /* graphs took more than the quota while they ran */

void gs_note_graph_allocation(void) { GS_STORE(has_allocations, 1); }

void gs_graph_memory_forget(void) {
  pthread_mutex_init(&graph_lock, NULL);
  has_allocations = launches = 0;
  charged_bytes = needed_bytes = 0;
  exceeded = false;
}

/* With graph_lock held. */

static CUdevice device_now(void) {
  CUdevice device = 0;
  return GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : 0;
}

static bool is_within_quota(void) {
  uint64_t quota = gs_quota_bytes();
  return !quota || gs_bytes_used(&gs_region) <= quota;
}

/* Sets the account to what the driver holds for graphs. If the driver does not report it, nothing changes. */
static void settle(void) {
  cuuint64_t owed = 0;
  if (GS_CALL(cuDeviceGetGraphMemAttribute)(device_now(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &owed)) return;
  if (owed < needed_bytes) owed = needed_bytes;
  uint64_t before = charged_bytes;
  charged_bytes = owed;
  if (owed > before && !gs_charge(owed - before)) exceeded = true;
  if (owed < before) gs_release_bytes(before - owed);
  if (exceeded && is_within_quota()) exceeded = false;
}

static void trim(void) {
  GS_CALL(cuDeviceGraphMemTrim)(device_now());
  settle();
}

/* Without graph_lock. */

void gs_graph_memory_settle(void) {
  if (GS_LIKELY(!GS_LOAD(has_allocations))) return;
  gs_lock(&graph_lock, GS_RANK_MEMORY);
  settle();
  gs_unlock(&graph_lock);
}

void gs_graph_memory_trim(void) {
  if (!GS_LOAD(has_allocations)) return;
  gs_lock(&graph_lock, GS_RANK_MEMORY);
  trim();
  gs_unlock(&graph_lock);
}

/* The least that a graph needs. */

static void add_span(struct spans *spans, uint64_t from, uint64_t bytes) {
  if (spans->count == spans->room) {
    size_t room = spans->room ? 2 * spans->room : 16;
    struct span *more = realloc(spans->all, room * sizeof *more);
    if (!more) return; /* then less is reserved, and the driver's count corrects it */
    spans->all = more;
    spans->room = room;
  }
  spans->all[spans->count++] = (struct span){from, from + bytes};
}

static void add_graph(struct spans *spans, CUgraph graph);

static void add_node(struct spans *spans, CUgraphNode node) {
  CUgraphNodeType type = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters;
  CUgraph child = NULL;
  if (GS_CALL(cuGraphNodeGetType)(node, &type)) return;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH && GS_CALL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS) {
    add_graph(spans, child);
  }
  if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || GS_CALL(cuGraphMemAllocNodeGetParams)(node, &parameters)) return;
  if (!gs_on_host(&parameters.poolProps.location)) add_span(spans, parameters.dptr, parameters.bytesize);
}

static void add_graph(struct spans *spans, CUgraph graph) {
  size_t count = 0;
  if (GS_CALL(cuGraphGetNodes)(graph, NULL, &count) || !count) return;
  CUgraphNode *nodes = calloc(count, sizeof *nodes);
  if (nodes && GS_CALL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; i++) add_node(spans, nodes[i]);
  }
  free(nodes);
}

static int by_address(const void *one, const void *other) {
  uint64_t a = ((const struct span *)one)->from, b = ((const struct span *)other)->from;
  return (a > b) - (a < b);
}

static uint64_t bytes_needed(CUgraph graph) {
  struct spans spans = {0};
  add_graph(&spans, graph);
  if (spans.count) qsort(spans.all, spans.count, sizeof *spans.all, by_address);
  uint64_t bytes = 0, end = 0;
  for (size_t i = 0; i < spans.count; i++) {
    uint64_t from = spans.all[i].from > end ? spans.all[i].from : end;
    if (spans.all[i].to <= from) continue;
    bytes += spans.all[i].to - from;
    end = spans.all[i].to;
  }
  free(spans.all);
  return bytes;
}

/* Launches. */

static uint64_t needed_by(CUgraphExec graph) {
  struct gs_entry *entry = gs_ledger_take(GS_GRAPH_MEMORY, (uintptr_t)graph);
  if (!entry) return 0;
  uint64_t bytes = entry->bytes;
  gs_ledger_put(entry, entry->key);
  return bytes;
}

static void end_launch(void) {
  gs_lock(&graph_lock, GS_RANK_MEMORY);
  if (--launches == 0) needed_bytes = 0;
  settle();
  gs_unlock(&graph_lock);
}

/* The missing bytes are added to the account before they are reserved, so that a concurrent settle does not release
 * them. */
static bool claim(uint64_t bytes) {
  gs_lock(&graph_lock, GS_RANK_MEMORY);
  settle();
  if (exceeded) trim();
  if (exceeded) {
    gs_unlock(&graph_lock);
    return false;
  }
  uint64_t missing = bytes > charged_bytes ? bytes - charged_bytes : 0;
  launches++;
  charged_bytes += missing;
  if (bytes > needed_bytes) needed_bytes = bytes;
  gs_unlock(&graph_lock);
  if (!missing || gs_reserve(missing)) return true;
  gs_lock(&graph_lock, GS_RANK_MEMORY);
  charged_bytes -= missing;
  if (--launches == 0) needed_bytes = 0;
  gs_unlock(&graph_lock);
  return false;
}

CUresult gs_run_graph(CUgraphExec graph, CUstream stream, bool per_thread, CUresult (*run)(CUgraphExec, CUstream)) {
  if (GS_LIKELY(!GS_LOAD(has_allocations)) || !gs_is_counting()) return run(graph, stream);
  uint64_t bytes = gs_is_recorded(stream, per_thread) ? 0 : needed_by(graph);
  if (!bytes) return run(graph, stream);
  if (!claim(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = run(graph, stream);
  if (result == CUDA_SUCCESS) gs_record_peak();
  end_launch();
  return result;
}

/* Nodes and graphs. */

GS_HOOK(cuGraphAddMemAllocNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
  gs_note_graph_allocation();
  return GS_CALL(cuGraphAddMemAllocNode)(node, graph, after, count, parameters);
}

static void note_type(const CUgraphNodeParams *parameters) {
  if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) gs_note_graph_allocation();
}

GS_HOOK(cuGraphAddNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *parameters) {
  note_type(parameters);
  return GS_CALL(cuGraphAddNode)(node, graph, after, count, parameters);
}

GS_HOOK(cuGraphAddNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *parameters) {
  note_type(parameters);
  return GS_CALL(cuGraphAddNode_v2)(node, graph, after, edges, count, parameters);
}

GS_HOOK(cuGraphAddNode_v3)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *parameters) {
  note_type(parameters);
  return GS_CALL(cuGraphAddNode_v3)(node, graph, after, edges, count, parameters);
}

/* Instantiation may upload the graph, which maps its memory, so the account is settled in any case. */
static CUresult after_instantiate(CUresult result, const CUgraphExec *executable, CUgraph graph) {
  if (GS_LIKELY(!GS_LOAD(has_allocations)) || result != CUDA_SUCCESS || !gs_is_counting()) return result;
  uint64_t bytes = bytes_needed(graph);
  struct gs_entry *entry = bytes ? gs_entry_new(GS_GRAPH_MEMORY, bytes) : NULL;
  if (entry) gs_ledger_put(entry, (uintptr_t)*executable);
  gs_graph_memory_settle();
  return result;
}

#define INSTANTIATE(symbol, parameters, ...)                                                          \
  GS_HOOK(symbol) parameters {                                                                         \
    return after_instantiate(GS_CALL(symbol)(executable, graph, __VA_ARGS__), executable, graph); \
  }
#define WITH_LOG (CUgraphExec * executable, CUgraph graph, CUgraphNode * wrong, char *log, size_t bytes)
#define WITH_PARAMETERS (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * parameters)

INSTANTIATE(cuGraphInstantiate, WITH_LOG, wrong, log, bytes)
INSTANTIATE(cuGraphInstantiate_v2, WITH_LOG, wrong, log, bytes)
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags), flags)
INSTANTIATE(cuGraphInstantiateWithParams, WITH_PARAMETERS, parameters)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, WITH_PARAMETERS, parameters)

/* The entry is removed first, because another thread may get the same handle at once. The driver keeps the memory. */
GS_HOOK(cuGraphExecDestroy)(CUgraphExec graph) {
  if (GS_LIKELY(!GS_LOAD(has_allocations))) return GS_CALL(cuGraphExecDestroy)(graph);
  struct gs_entry *entry = gs_ledger_take(GS_GRAPH_MEMORY, (uintptr_t)graph);
  CUresult result = GS_CALL(cuGraphExecDestroy)(graph);
  if (entry && result != CUDA_SUCCESS) {
    gs_ledger_put(entry, entry->key);
  } else {
    free(entry);
  }
  return result;
}

GS_HOOK(cuDeviceGraphMemTrim)(CUdevice device) {
  CUresult result = GS_CALL(cuDeviceGraphMemTrim)(device);
  if (gs_is_counting()) gs_graph_memory_settle();
  return result;
}
