/* What all folders of the shim share. Each folder offers its functions to the others in one header: region/region.h,
 * timing/timing.h, streams/streams.h, gate/gate.h (gate/grant.h and gate/in_flight.h for streams/), memory/memory.h and
 * hooks/hooks.h. locks.h gives the order of the locks.
 *
 * The driver's functions are listed once: hooks/calls.def has entry and memory, hooks/gate_calls.def launches, streams,
 * copies and partitions. A line gives the name that programs look up, the CUDA version from which this name means the
 * symbol, the exported symbols and the arguments. The prototypes, the members of `struct gs_real` and the table for
 * dlsym and cuGetProcAddress are generated from it:
 *
 *   HOOK(base, since, symbol, (arguments))              a hook of the same name is written with GS_HOOK(symbol)
 *   HOOK2(base, since, symbol, thread, (arguments))     and `thread`, its variant for per-thread default streams
 *   NEED(base, since, symbol, (arguments))              not hooked, only called
 *   ALSO(base, since, symbol)                           from this version on the name means a symbol of another line
 *
 *   GS_HOOK(cuMemFree_v2)(CUdeviceptr pointer) { ... return GS_CALL(cuMemFree_v2)(pointer); }
 */
#ifndef GPUSQUAD_SHIM_H
#define GPUSQUAD_SHIM_H

#include "cuda_api.h"
#include "region/region.h"

#define GS_EXPORT __attribute__((visibility("default")))
#define GS_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define GS_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Prototypes. The hooks are exported, because programs that link the driver directly bind to them. */
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

/* The real driver. Functions that it does not have return CUDA_ERROR_NOT_FOUND. */
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

/* A function of NVML, found at the first call; `kept` is its member of gs_real. */
void *gs_nvml_function(void **kept, const char *symbol);

/* Whether this process belongs to a GPU client. Decided at the first call, and again in a forked child. */
enum {
  GS_UNKNOWN = 0,
  GS_ALONE = 1,
  GS_CLIENT = 2,
  GS_OUTSIDE = 3, /* all process slots of the client are in use: this process gets no card memory */
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

#endif
