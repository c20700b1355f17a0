/* Memory that graphs allocate in nodes of their own. The driver maps it when a graph is launched, keeps it after that, and
 * lets graphs that never run at once share it. So the account follows the driver's own count; and before a graph is
 * launched there must be room for what it cannot do without: the bytes at its nodes' addresses, which the driver shares
 * among nodes that are not alive at once. Graphs that run at once may take more than that. It is seen when the launch is
 * over, and nothing that allocates is launched until it is within the quota again.
 *
 * A process that never made such a node passes by. */
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t allocates;      /* 1: there was such a node */
static uint64_t charged_bytes;  /* in the account for graphs */
static uint64_t needed_bytes;   /* by the largest of the launches that are under way */
static uint32_t launches;       /* under way */
static bool exceeded;           /* the quota, by what graphs took while they ran */

void gs_note_graph_allocation(void) { GS_STORE(allocates, 1); }

void gs_graph_memory_forget(void) {
  pthread_mutex_init(&lock, NULL);
  allocates = launches = 0;
  charged_bytes = needed_bytes = 0;
  exceeded = false;
}

/* With the lock held. */

static CUdevice device_now(void) {
  CUdevice device = 0;
  return GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : 0;
}

static bool is_within_quota(void) {
  uint64_t quota = gs_quota_bytes();
  return !quota || gs_bytes_used(&gs_region) <= quota;
}

/* Makes the account say what the driver holds for graphs. Where it does not tell, nothing changes. */
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

/* Without it. */

void gs_graph_memory_settle(void) {
  if (GS_LIKELY(!GS_LOAD(allocates))) return;
  pthread_mutex_lock(&lock);
  settle();
  pthread_mutex_unlock(&lock);
}

void gs_graph_memory_trim(void) {
  if (!GS_LOAD(allocates)) return;
  pthread_mutex_lock(&lock);
  trim();
  pthread_mutex_unlock(&lock);
}

/* What a graph needs at least. */

static void add_span(struct spans *spans, uint64_t from, uint64_t bytes) {
  if (spans->count == spans->room) {
    size_t room = spans->room ? 2 * spans->room : 16;
    struct span *more = realloc(spans->all, room * sizeof *more);
    if (!more) return; /* then less is asked for, and the rest is found out by the driver's count */
    spans->all = more;
    spans->room = room;
  }
  spans->all[spans->count++] = (struct span){from, from + bytes};
}

static void look_at_graph(struct spans *spans, CUgraph graph);

static void look_at_node(struct spans *spans, CUgraphNode node) {
  CUgraphNodeType type = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS asked;
  CUgraph child = NULL;
  if (GS_CALL(cuGraphNodeGetType)(node, &type)) return;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH && GS_CALL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS) {
    look_at_graph(spans, child);
  }
  if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || GS_CALL(cuGraphMemAllocNodeGetParams)(node, &asked)) return;
  if (!gs_on_host(&asked.poolProps.location)) add_span(spans, asked.dptr, asked.bytesize);
}

static void look_at_graph(struct spans *spans, CUgraph graph) {
  size_t count = 0;
  if (GS_CALL(cuGraphGetNodes)(graph, NULL, &count) || !count) return;
  CUgraphNode *nodes = calloc(count, sizeof *nodes);
  if (nodes && GS_CALL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; i++) look_at_node(spans, nodes[i]);
  }
  free(nodes);
}

static int by_address(const void *one, const void *other) {
  uint64_t a = ((const struct span *)one)->from, b = ((const struct span *)other)->from;
  return (a > b) - (a < b);
}

static uint64_t bytes_needed(CUgraph graph) {
  struct spans spans = {0};
  look_at_graph(&spans, graph);
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

static void over(void) {
  pthread_mutex_lock(&lock);
  if (--launches == 0) needed_bytes = 0;
  settle();
  pthread_mutex_unlock(&lock);
}

/* What is missing is put down before it is reserved: whoever settles meanwhile must not give it back. */
static bool claim(uint64_t bytes) {
  pthread_mutex_lock(&lock);
  settle();
  if (exceeded) trim();
  if (exceeded) {
    pthread_mutex_unlock(&lock);
    return false;
  }
  uint64_t missing = bytes > charged_bytes ? bytes - charged_bytes : 0;
  launches++;
  charged_bytes += missing;
  if (bytes > needed_bytes) needed_bytes = bytes;
  pthread_mutex_unlock(&lock);
  if (!missing || gs_reserve(missing)) return true;
  pthread_mutex_lock(&lock);
  charged_bytes -= missing;
  if (--launches == 0) needed_bytes = 0;
  pthread_mutex_unlock(&lock);
  return false;
}

CUresult gs_run_graph(CUgraphExec graph, CUstream stream, bool per_thread, CUresult (*run)(CUgraphExec, CUstream)) {
  if (GS_LIKELY(!GS_LOAD(allocates)) || !gs_is_counting()) return run(graph, stream);
  uint64_t bytes = gs_is_recorded(stream, per_thread) ? 0 : needed_by(graph);
  if (!bytes) return run(graph, stream);
  if (!claim(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = run(graph, stream);
  if (result == CUDA_SUCCESS) gs_record_peak();
  over();
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

/* A graph may be uploaded as it is made, which maps its memory: so its bytes are looked at in any case. */
static CUresult made(CUresult result, const CUgraphExec *executable, CUgraph graph) {
  if (GS_LIKELY(!GS_LOAD(allocates)) || result != CUDA_SUCCESS || !gs_is_counting()) return result;
  uint64_t bytes = bytes_needed(graph);
  struct gs_entry *entry = bytes ? gs_entry_new(GS_GRAPH_MEMORY, bytes) : NULL;
  if (entry) gs_ledger_put(entry, (uintptr_t)*executable);
  gs_graph_memory_settle();
  return result;
}

#define MADE(symbol, parameters, ...) \
  GS_HOOK(symbol) parameters { return made(GS_CALL(symbol)(executable, graph, __VA_ARGS__), executable, graph); }
#define WITH_LOG (CUgraphExec * executable, CUgraph graph, CUgraphNode * wrong, char *log, size_t bytes)
#define WITH_PARAMETERS (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * parameters)

MADE(cuGraphInstantiate, WITH_LOG, wrong, log, bytes)
MADE(cuGraphInstantiate_v2, WITH_LOG, wrong, log, bytes)
MADE(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags), flags)
MADE(cuGraphInstantiateWithParams, WITH_PARAMETERS, parameters)
MADE(cuGraphInstantiateWithParams_ptsz, WITH_PARAMETERS, parameters)

/* Taken out before: a moment later the same handle may be another thread's. Its memory stays with the driver. */
GS_HOOK(cuGraphExecDestroy)(CUgraphExec graph) {
  if (GS_LIKELY(!GS_LOAD(allocates))) return GS_CALL(cuGraphExecDestroy)(graph);
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
