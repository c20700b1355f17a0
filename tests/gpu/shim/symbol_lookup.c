/* A program that looks up the driver's symbols in one of several ways, allocates, and prints the results. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*init_type)(unsigned int);
typedef int (*retain_type)(void **, int);
typedef int (*current_type)(void *);
typedef int (*alloc_type)(unsigned long long *, size_t);
typedef int (*async_type)(unsigned long long *, size_t, void *);
typedef int (*proc1_type)(const char *, void **, int, uint64_t);
typedef int (*proc2_type)(const char *, void **, int, uint64_t, int *);

#ifdef LINKED
int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemAllocAsync(unsigned long long *pointer, size_t bytes, void *stream);
#endif

static const char *way;
static void *library;
static int version = 12000;

static void *by_driver(const char *name, uint64_t flags) {
  void *found = NULL;
  if (strcmp(way, "v1") == 0) {
    proc1_type ask = (proc1_type)dlsym(library, "cuGetProcAddress");
    ask(name, &found, version, flags);
  } else {
    proc2_type ask = (proc2_type)dlsym(library, "cuGetProcAddress_v2"), again = NULL;
    int status = -1;
    /* As the CUDA runtime does: it looks up cuGetProcAddress itself first. */
    ask("cuGetProcAddress", (void **)&again, version, flags, &status);
    again(name, &found, version, flags, &status);
  }
  return found;
}

static void *look_up(const char *base, const char *symbol, uint64_t flags) {
#ifdef LINKED
  (void)base;
  (void)flags;
  if (strcmp(symbol, "cuInit") == 0) return (void *)cuInit;
  if (strcmp(symbol, "cuDevicePrimaryCtxRetain") == 0) return (void *)cuDevicePrimaryCtxRetain;
  if (strcmp(symbol, "cuCtxSetCurrent") == 0) return (void *)cuCtxSetCurrent;
  return strcmp(symbol, "cuMemAlloc_v2") == 0 ? (void *)cuMemAlloc_v2 : (void *)cuMemAllocAsync;
#else
  if (strcmp(way, "v1") == 0 || strcmp(way, "v2") == 0) return by_driver(base, flags);
  if (strcmp(way, "dlvsym") == 0) {
    void *found = dlvsym(library, symbol, "NO_SUCH_VERSION");
    return found ? found : dlsym(library, symbol);
  }
  if (strcmp(way, "default") == 0) return dlsym(RTLD_DEFAULT, symbol);
  return dlsym(library, symbol);
#endif
}

int main(int count, char **arguments) {
  way = count > 1 ? arguments[1] : "dlsym";
  uint64_t flags = count > 2 && strcmp(arguments[2], "thread") == 0 ? 2 : 0;
  library = dlopen("libcuda.so.1", RTLD_NOW | (strcmp(way, "default") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
  void *context = NULL;
  unsigned long long pointer = 0;
  ((init_type)look_up("cuInit", "cuInit", flags))(0);
  ((retain_type)look_up("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", flags))(&context, 0);
  ((current_type)look_up("cuCtxSetCurrent", "cuCtxSetCurrent", flags))(context);
  alloc_type alloc = (alloc_type)look_up("cuMemAlloc", "cuMemAlloc_v2", flags);
  async_type async = (async_type)look_up("cuMemAllocAsync", flags ? "cuMemAllocAsync_ptsz" : "cuMemAllocAsync", flags);
  Dl_info async_from;
  dladdr((void *)async, &async_from);
  int first = alloc(&pointer, 1 << 20), second = alloc(&pointer, 1 << 20), third = async(&pointer, 1 << 20, NULL);
  printf("%d %d %d %s\n", first, second, third, async_from.dli_sname);
  return 0;
}
