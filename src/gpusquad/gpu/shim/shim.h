/* What the parts of the shim know of each other.
 *
 * The driver's functions are listed once, in calls.def (entry and memory) and gate_calls.def (launches, streams,
 * copies, partitions). A line gives the name programs ask for, the CUDA version from which this symbol answers that
 * name, the exported symbols and the arguments; from it come the prototypes, the members of `struct gs_real`, and the
 * rows of the table by which dlsym and cuGetProcAddress are answered:
 *
 *   HOOK(base, since, symbol, (arguments))              a hook of the same name is written with GS_HOOK(symbol)
 *   HOOK2(base, since, symbol, thread, (arguments))     and `thread`, its variant for per-thread default streams
 *   NEED(base, since, symbol, (arguments))              not hooked, only called
 *   ALSO(base, since, symbol)                           a symbol of another line answers this name too, from then on
 *
 *   GS_HOOK(cuMemFree_v2)(CUdeviceptr pointer) { ... return GS_CALL(cuMemFree_v2)(pointer); }
 */
#ifndef GPUSQUAD_SHIM_H
#define GPUSQUAD_SHIM_H

#include "cuda_api.h"
#include "region/region.h"

#define GS_EXPORT __attribute__((visibility("default")))
#define GS_WEAK __attribute__((weak))
#define GS_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define GS_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Prototypes. Exported, because programs that link the driver directly bind to them. */
#define HOOK(base, since, symbol, arguments) GS_EXPORT CUresult symbol arguments;
#define HOOK2(base, since, symbol, thread, arguments) \
  GS_EXPORT CUresult symbol arguments;                \
  GS_EXPORT CUresult thread arguments;
#define NEED(base, since, symbol, arguments) CUresult symbol arguments;
#define ALSO(base, since, symbol)
#include "hooks/all_calls.def"
#undef HOOK
#undef HOOK2
#undef NEED
#undef ALSO

/* The real driver. Functions it does not have answer CUDA_ERROR_NOT_FOUND. */
struct gs_real {
#define HOOK(base, since, symbol, arguments) CUresult(*symbol) arguments;
#define HOOK2(base, since, symbol, thread, arguments) \
  CUresult(*symbol) arguments;                        \
  CUresult(*thread) arguments;
#define NEED(base, since, symbol, arguments) CUresult(*symbol) arguments;
#define ALSO(base, since, symbol)
#include "hooks/all_calls.def"
#undef HOOK
#undef HOOK2
#undef NEED
#undef ALSO
};
extern struct gs_real gs_real;
extern uint32_t gs_driver_found;
void gs_find_driver(void);

static inline const struct gs_real *gs_driver(void) {
  if (GS_UNLIKELY(!GS_LOAD(gs_driver_found))) gs_find_driver();
  return &gs_real;
}

#define GS_HOOK(symbol) GS_EXPORT CUresult symbol
#define GS_CALL(symbol) (gs_driver()->symbol)

CUresult gs_missing(void);
#define GS_HAS(symbol) ((void *)GS_CALL(symbol) != (void *)gs_missing)

/* A function of NVML, found when it is first called; `kept` is its member of gs_real. */
void *gs_nvml_function(void **kept, const char *symbol);

/* Whether this process belongs to a tenant. Decided at the first call and, in a forked child, anew. */
enum {
  GS_UNKNOWN = 0,
  GS_ALONE = 1,
  GS_CLIENT = 2,
  GS_OUTSIDE = 3, /* of a tenant that has no room for another process: gets no memory of the card */
};
extern uint32_t gs_state;
bool gs_attach(void);

static inline bool gs_attached(void) {
  uint32_t state = GS_LOAD(gs_state);
  if (GS_UNLIKELY(state == GS_UNKNOWN)) return gs_attach();
  return state == GS_CLIENT;
}

/* One line on stderr. */
void gs_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Offered by pools.c: work is known to be done, so pools may have let go of memory. Cheap when no pool keeps any. */
void gs_memory_after_sync(void);

/* Offered by graph_memory.c: has a graph run by `run` if there is room for what it allocates in nodes of its own. */
CUresult gs_run_graph(CUgraphExec graph, CUstream stream, bool per_thread, CUresult (*run)(CUgraphExec, CUstream));

/* memory.c, told by entry.c: a child has forked and owns nothing of what its parent allocated. */
void gs_memory_forget(void);

/* Offered by the gate; weak, so that the quota can be built and tested without it. */

/* This process has become one of a tenant (gs_region is valid). */
GS_WEAK void gs_gate_attached(void);
/* A child has forked: forget streams, contexts, threads. Async-signal-safe. */
GS_WEAK void gs_gate_forget(void);
/* The process exits cleanly. */
GS_WEAK void gs_gate_stop(void);
/* A context is about to be destroyed or reset; then it was, or could not be. */
GS_WEAK void gs_context_ending(CUcontext context);
GS_WEAK void gs_context_ended(CUcontext context, bool ended);
/* Around a call that may end the primary context or not: nobody of ours looks at it meanwhile. NULL: it goes on. */
GS_WEAK void gs_context_releasing(void);
GS_WEAK void gs_context_released(CUcontext ended);
/* The stream that work meant for `stream` goes to now; `per_thread`: whether 0 means the calling thread's own. */
GS_WEAK CUstream gs_stream_real(CUstream stream, bool per_thread);
/* Memory is about to be freed. That waits for what is under way, but perhaps not for what runs on partitions. */
GS_WEAK void gs_before_free(void);
/* Whether work on `stream` is being recorded in a graph instead of run. */
GS_WEAK bool gs_stream_capturing(CUstream stream, bool per_thread);

#endif
