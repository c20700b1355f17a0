/* Interception: the shim exports dlsym and the driver's own symbols, and answers cuGetProcAddress. A program that never
 * looks up a CUDA symbol pays for two comparisons per dlsym. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gate/gate.h"
#include "hooks/c_library.h"
#include "memory/memory.h"

#define DRIVER "libcuda.so.1"
#define LATEST_VARIANT 9

struct gs_real gs_real;
uint32_t gs_driver_found;
uint32_t gs_state;

static void *driver_handle;

/* The table: one row for each symbol that is hooked or called. */

struct row {
  const char *base; /* the name that programs pass to cuGetProcAddress */
  int since;        /* first CUDA version in which `base` means `symbol` */
  const char *symbol;
  bool per_thread; /* in `symbol` stream 0 is the thread's own */
  void *hook;      /* NULL: only called */
  void **real;
};

#define REAL(symbol) ((void **)(void *)&gs_real.symbol)
#define HOOK(base, since, symbol, arguments) {#base, since, #symbol, false, (void *)symbol, REAL(symbol)},
#define HOOK2(base, since, symbol, thread, arguments)                    \
  {#base, since, #symbol, false, (void *)symbol, REAL(symbol)},          \
  {#base, since, #thread, true, (void *)thread, REAL(thread)},
#define NEED(base, since, symbol, arguments) {#base, since, #symbol, false, NULL, REAL(symbol)},
#define ALSO(base, since, symbol) {#base, since, #symbol, false, (void *)symbol, REAL(symbol)},
static const struct row rows[] = {
#include "hooks/all_calls.def"
};
#undef HOOK
#undef HOOK2
#undef NEED
#undef ALSO

#define FOR_EACH_ROW(row) for (const struct row *row = rows; row < rows + sizeof rows / sizeof *rows; row++)

static const struct row *by_symbol(const char *name) {
  FOR_EACH_ROW(row) {
    if (row->hook && strcmp(row->symbol, name) == 0) return row;
  }
  return NULL;
}

/* The C library's own functions. Two threads find the same, so no lock is needed. */

typedef void *(*dlsym_type)(void *, const char *);
typedef void *(*dlvsym_type)(void *, const char *, const char *);

static void *c_library_own(void **kept, const char *name, const void *our_hook) {
  void *found = GS_LOAD(*kept);
  if (GS_LIKELY(found)) return found;
  found = gs_c_library_function(name, our_hook);
  if (!found) {
    gs_log("cannot find %s in the C library", name);
    abort();
  }
  GS_STORE(*kept, found);
  return found;
}

static void *kept_dlsym, *kept_dlvsym;

static dlsym_type real_dlsym(void) { return (dlsym_type)c_library_own(&kept_dlsym, "dlsym", (const void *)dlsym); }

static dlvsym_type real_dlvsym(void) {
  return (dlvsym_type)c_library_own(&kept_dlvsym, "dlvsym", (const void *)dlvsym);
}

/* The driver. */

CUresult gs_missing(void) { return CUDA_ERROR_NOT_FOUND; }

static bool is_nvml(const char *name) { return strncmp(name, "nvml", 4) == 0; }

static void *driver_if_loaded(void) {
  void *handle = GS_LOAD(driver_handle);
  if (handle) return handle;
  handle = dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD);
  if (handle) GS_STORE(driver_handle, handle);
  return handle;
}

void gs_find_driver(void) {
  void *handle = driver_if_loaded();
  if (!handle) handle = dlopen(DRIVER, RTLD_LAZY);
  if (handle) GS_STORE(driver_handle, handle);
  FOR_EACH_ROW(row) {
    if (GS_LOAD(*row->real)) continue;
    void *found = handle && !is_nvml(row->symbol) ? real_dlsym()(handle, row->symbol) : NULL;
    GS_STORE(*row->real, found ? found : (void *)gs_missing);
  }
  GS_STORE(gs_driver_found, 1);
}

/* The driver is not loaded for a program that only uses NVML. */
static void keep_real(const struct row *row, void *found) {
  if (!is_nvml(row->symbol)) gs_driver();
  void *kept = GS_LOAD(*row->real);
  bool unknown = !kept || kept == (void *)gs_missing;
  if (unknown && found && found != row->hook) GS_STORE(*row->real, found);
}

/* dlsym. */

static void *not_there(const char *name) {
  return real_dlsym()(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name); /* fails, and dlerror names the symbol */
}

static void *nvml_if_loaded(void) { return dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD); }

void *gs_nvml_function(void **kept, const char *symbol) {
  void *known = GS_LOAD(*kept);
  if (known && known != (void *)gs_missing) return known;
  void *handle = nvml_if_loaded();
  void *found = handle ? real_dlsym()(handle, symbol) : NULL;
  if (!found) return (void *)gs_missing;
  GS_STORE(*kept, found);
  return found;
}

/* Our own export is also found if no driver was ever loaded. A program that checks for the driver must not find it. */
static void *answer(const struct row *row, void *handle, const char *name) {
  bool everywhere = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
  void *found = everywhere ? row->hook : real_dlsym()(handle, name);
  if (!found) return NULL;
  if (found == row->hook && !(is_nvml(name) ? nvml_if_loaded() : driver_if_loaded())) return not_there(name);
  keep_real(row, found);
  if (found == row->hook && !is_nvml(name) && GS_LOAD(*row->real) == (void *)gs_missing) return not_there(name);
  return row->hook;
}

static const struct row *find_hooked(const char *name) {
  bool candidate = name && ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'));
  return GS_UNLIKELY(candidate) ? by_symbol(name) : NULL;
}

/* The last calls are tail calls, so that the C library sees our caller's return address, which RTLD_NEXT depends on. */
GS_EXPORT void *dlsym(void *restrict handle, const char *restrict name) {
  const struct row *row = find_hooked(name);
  if (GS_UNLIKELY(row)) return answer(row, handle, name);
  return real_dlsym()(handle, name);
}

GS_EXPORT void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version) {
  const struct row *row = find_hooked(name);
  if (GS_UNLIKELY(row)) return answer(row, handle, name);
  return real_dlvsym()(handle, name, version);
}

/* cuGetProcAddress: the driver answers first, and its answer is replaced by our hook. */

/* True: the driver exports this address under a variant of `base` that is not in our table. It is a newer or older form
 * and may have other arguments. */
static bool is_other_variant(const char *base, void *found) {
  static const char *const endings[] = {"", "_ptsz", "_ptds"};
  for (int variant = 1; variant <= LATEST_VARIANT; variant++) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
      char name[128], number[8] = "";
      if (variant > 1) snprintf(number, sizeof number, "_v%d", variant);
      snprintf(name, sizeof name, "%s%s%s", base, number, endings[i]);
      if (real_dlsym()(driver_handle, name) == found) return true;
    }
  }
  return false;
}

static bool is_hooked(const char *base) {
  FOR_EACH_ROW(row) {
    if (row->hook && strcmp(row->base, base) == 0) return true;
  }
  return false;
}

/* The driver may answer with our own hook, if its table was bound to the first definitions in the process. */
static const struct row *by_address(const char *base, void *found) {
  FOR_EACH_ROW(row) {
    if (!row->hook || strcmp(row->base, base) != 0) continue;
    if (GS_LOAD(*row->real) == found || row->hook == found) return row;
  }
  return NULL;
}

static const struct row *by_version(const char *base, int version, bool per_thread) {
  const struct row *best = NULL;
  FOR_EACH_ROW(row) {
    if (!row->hook || strcmp(row->base, base) != 0) continue;
    if (row->since > version || (row->per_thread && !per_thread)) continue;
    if (!best || row->since > best->since || (row->since == best->since && row->per_thread)) best = row;
  }
  return best;
}

static void *our_hook(const char *name, void *found, int version, cuuint64_t flags) {
  gs_driver();
  const struct row *row = by_symbol(name); /* if it is the full name of a variant */
  if (is_hooked(name)) {
    row = by_address(name, found);
    if (row) return row->hook;
    if (is_other_variant(name, found)) return found;
    row = by_version(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  }
  if (!row) return found;
  keep_real(row, found);
  return row->hook;
}

GS_HOOK(cuGetProcAddress)(const char *name, void **found, int version, cuuint64_t flags) {
  CUresult result = GS_CALL(cuGetProcAddress)(name, found, version, flags);
  if (result == CUDA_SUCCESS && name && found && *found) *found = our_hook(name, *found, version, flags);
  return result;
}

GS_HOOK(cuGetProcAddress_v2)(const char *name, void **found, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  CUresult result = GS_CALL(cuGetProcAddress_v2)(name, found, version, flags, status);
  if (result == CUDA_SUCCESS && name && found && *found) *found = our_hook(name, *found, version, flags);
  return result;
}

/* Attaching to a client. */

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget_in_child(void) {
  if (GS_LOAD(gs_state) == GS_UNKNOWN) return;
  gs_gate_forget();
  gs_memory_forget();
  gs_region_forget(&gs_region);
  GS_STORE(gs_state, GS_UNKNOWN);
}

static void before_fork(void) { gs_lock(&attach_lock, GS_RANK_ATTACH); }

static void after_fork_in_parent(void) { gs_unlock(&attach_lock); }

static void after_fork_in_child(void) {
  gs_unlock(&attach_lock);
  forget_in_child();
}

static void at_exit(void) {
  if (GS_LOAD(gs_state) == GS_CLIENT) gs_gate_stop();
}

static void register_handlers(void) {
  static bool registered;
  if (registered) return;
  registered = true;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  atexit(at_exit);
}

static uint32_t state_after(enum gs_attach_result found) {
  if (found == GS_ATTACHED) return GS_CLIENT;
  return found == GS_CROWDED ? GS_OUTSIDE : GS_ALONE;
}

bool gs_attach(void) {
  bool is_new = false;
  gs_lock(&attach_lock, GS_RANK_ATTACH);
  if (GS_LOAD(gs_state) == GS_UNKNOWN) {
    register_handlers();
    uint32_t state = state_after(gs_region_attach(&gs_region));
    GS_STORE(gs_state, state);
    is_new = state == GS_CLIENT;
  }
  gs_unlock(&attach_lock);
  if (is_new) gs_gate_attached();
  return GS_LOAD(gs_state) == GS_CLIENT;
}

void gs_log(const char *format, ...) {
  char line[512];
  int length = snprintf(line, sizeof line, "gpusquad: ");
  va_list arguments;
  va_start(arguments, format);
  length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}
