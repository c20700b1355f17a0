/* Card memory and pinned host memory. Device memory is ordinary memory of this process; the card counts the requested
 * bytes, without rounding. */
#define _GNU_SOURCE
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

struct si_array { struct si_array *next; struct si_context *owner; uint64_t bytes; };

static struct si_alloc **table; /* sorted by address */
static size_t table_count, table_room;
static struct si_array *arrays;

static size_t place_of(const char *address)
{
    size_t low = 0, high = table_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->base <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

void si_alloc_add_locked(struct si_alloc *alloc)
{
    size_t at = place_of(alloc->base);
    if (table_count == table_room) {
        table_room = table_room ? 2 * table_room : 64;
        table = realloc(table, table_room * sizeof *table);
        if (!table) abort();
    }
    memmove(table + at + 1, table + at, (table_count - at) * sizeof *table);
    table[at] = alloc;
    table_count++;
}

void si_alloc_forget_locked(struct si_alloc *alloc)
{
    size_t at = place_of(alloc->base);
    while (at > 0 && table[at - 1] != alloc) at--;
    if (at == 0) return;
    memmove(table + at - 1, table + at, (table_count - at) * sizeof *table);
    table_count--;
}

/* The allocation that contains all of these bytes, or NULL. */
struct si_alloc *si_find_locked(const void *address, size_t bytes)
{
    const char *from = address;
    size_t at = place_of(from);
    struct si_alloc *alloc = at ? table[at - 1] : NULL;
    bool inside = alloc && !alloc->dead && from + bytes <= alloc->base + alloc->bytes;
    return inside ? alloc : NULL;
}

static struct si_alloc *find_exact(const void *address)
{
    struct si_alloc *alloc = si_find_locked(address, 1);
    return alloc && alloc->base == address ? alloc : NULL;
}

/* Memory allocated in a green context belongs to the primary context. */
static struct si_context *owner_now(void)
{
    struct si_context *context = si_current();
    return context && context->is_green ? si_me.primary : context;
}

struct si_alloc *si_alloc_new_locked(size_t bytes, enum si_memory memory, bool charge, CUresult *result)
{
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    if (charge && !si_card_charge(si_me.card, si_me.card_fd, si_me.slot, bytes)) return NULL;
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        if (charge) si_card_release(si_me.card, si_me.slot, bytes);
        return NULL;
    }
    struct si_alloc *alloc = calloc(1, sizeof *alloc);
    if (!alloc) abort();
    *alloc = (struct si_alloc){.base = base, .bytes = bytes, .memory = memory, .fd = -1};
    alloc->charged_bytes = charge ? bytes : 0;
    if (memory != SI_POOLED && memory != SI_OF_GRAPH) alloc->owner = owner_now();
    si_alloc_add_locked(alloc);
    *result = CUDA_SUCCESS;
    return alloc;
}

void si_alloc_end_locked(struct si_alloc *alloc)
{
    si_alloc_forget_locked(alloc);
    if (alloc->memory != SI_REGISTERED) munmap(alloc->base, alloc->bytes);
    if (alloc->fd >= 0) close(alloc->fd);
    if (alloc->charged_bytes) si_card_release(si_me.card, si_me.slot, alloc->charged_bytes);
    free(alloc);
}

/* The memory of a context ends with it. Pools and memory from cuMemCreate belong to the device and stay. */
void si_forget_context_locked(const struct si_context *context)
{
    for (size_t i = table_count; i-- > 0;) {
        if (table[i]->owner == context) si_alloc_end_locked(table[i]);
    }
    for (struct si_array **link = &arrays; *link;) {
        struct si_array *array = *link;
        if (array->owner != context) {
            link = &array->next;
            continue;
        }
        *link = array->next;
        si_card_release(si_me.card, si_me.slot, array->bytes);
        free(array);
    }
}

static CUresult allocate(void **address, size_t bytes, enum si_memory memory)
{
    SI_TRY(si_need_context(NULL));
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_me.error;
    if (result == CUDA_SUCCESS) result = si_capture_unsafe_locked();
    if (result == CUDA_SUCCESS) {
        struct si_alloc *alloc = si_alloc_new_locked(bytes, memory, memory == SI_DEVICE, &result);
        if (alloc) *address = alloc->base;
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

/* Frees wait for the card, as the real call does. */
static CUresult release(void *address, enum si_memory expected, enum si_memory other)
{
    SI_TRY(si_need_context(NULL));
    if (!address) return CUDA_SUCCESS;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_capture_unsafe_locked();
    if (result == CUDA_SUCCESS) {
        si_wait_locked(NULL, si_current(), si_me.seq); /* not for green contexts: the API does not guarantee it */
        struct si_alloc *alloc = find_exact(address);
        if (alloc && alloc->memory == SI_OF_GRAPH && expected == SI_DEVICE) si_graph_reclaim_locked(alloc);
        else if (!alloc || (alloc->memory != expected && alloc->memory != other)) result = CUDA_ERROR_INVALID_VALUE;
        else if (alloc->memory == SI_POOLED) si_pool_reclaim_locked(alloc);
        else si_alloc_end_locked(alloc);
        si_pools_trim_locked();
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    SI_TRY(si_need_context(NULL));
    si_card_lock(si_me.card);
    si_card_reap(si_me.card, si_me.card_fd, si_me.slot);
    uint64_t used = si_card_used(si_me.card);
    si_card_unlock(si_me.card);
    if (total_bytes) *total_bytes = si_me.card->memory_bytes;
    if (free_bytes) *free_bytes = used < si_me.card->memory_bytes ? si_me.card->memory_bytes - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) { return allocate((void **)address, bytes, SI_DEVICE); }

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    if (!pitch || !width || !height) return CUDA_ERROR_INVALID_VALUE;
    if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + 511) / 512 * 512;
    SI_TRY(cuMemAlloc_v2(address, row * height));
    *pitch = row;
    return CUDA_SUCCESS;
}

/* Managed memory is not counted: a real card holds only the touched part of it. */
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    if (flags != 1 && flags != 2) return CUDA_ERROR_INVALID_VALUE;
    return allocate((void **)address, bytes, SI_MANAGED);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    SI_TRY(si_ready());
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = find_exact((void *)(uintptr_t)address);
    enum si_memory memory = alloc && alloc->memory == SI_POOLED ? SI_POOLED : SI_DEVICE;
    pthread_mutex_unlock(&si_me.lock);
    return release((void *)(uintptr_t)address, memory, SI_MANAGED);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    SI_TRY(si_need_context(NULL));
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = si_find_locked((void *)(uintptr_t)address, 1);
    if (alloc && base) *base = (CUdeviceptr)(uintptr_t)alloc->base;
    if (alloc && bytes) *bytes = alloc->bytes;
    pthread_mutex_unlock(&si_me.lock);
    return alloc ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(address, bytes, SI_PINNED);
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

CUresult cuMemFreeHost(void *address)
{
    return address ? release(address, SI_PINNED, SI_PINNED) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    (void)flags;
    SI_TRY(si_need_context(NULL));
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    bool known = si_find_locked(address, 1) != NULL;
    if (!known) {
        struct si_alloc *alloc = calloc(1, sizeof *alloc);
        if (!alloc) abort();
        *alloc = (struct si_alloc){.base = address, .bytes = bytes, .memory = SI_REGISTERED, .fd = -1};
        alloc->owner = owner_now();
        si_alloc_add_locked(alloc);
    }
    pthread_mutex_unlock(&si_me.lock);
    return known ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *address)
{
    CUresult result = release(address, SI_REGISTERED, SI_REGISTERED);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags)
{
    if (!device || flags) return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)host;
    return cuMemGetAddressRange_v2(NULL, NULL, *device) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *host)
{
    *flags = 0;
    return cuMemGetAddressRange_v2(NULL, NULL, (CUdeviceptr)(uintptr_t)host) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
    SI_TRY(si_need_context(NULL));
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = si_find_locked((void *)(uintptr_t)address, 1);
    bool host = alloc && (alloc->memory == SI_PINNED || alloc->memory == SI_REGISTERED);
    CUresult result = alloc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (alloc && attribute == 1) *(struct si_context **)data = si_current();
    else if (alloc && attribute == 2) *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    else if (alloc && (attribute == 3 || attribute == 4)) *(CUdeviceptr *)data = address;
    else if (alloc && attribute == 8) *(unsigned *)data = alloc->memory == SI_MANAGED;
    else if (alloc && attribute == 9) *(int *)data = 0;
    else if (alloc) result = CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

/* A handle holds the process, its file and the size. Another process of the same user opens the file through /proc. */
struct ipc { int32_t pid, fd; uint64_t bytes; char unused[48]; };
_Static_assert(sizeof(struct ipc) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* Moves the memory to a file that other processes can map; the address stays the same. */
static bool share_with_processes(struct si_alloc *alloc)
{
    if (alloc->fd >= 0) return true;
    int fd = memfd_create("standin-memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)alloc->bytes) != 0) return false;
    if (pwrite(fd, alloc->base, alloc->bytes, 0) != (ssize_t)alloc->bytes) return false;
    int rights = PROT_READ | PROT_WRITE;
    if (mmap(alloc->base, alloc->bytes, rights, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return false;
    alloc->fd = fd;
    return true;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    SI_TRY(si_need_context(NULL));
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = find_exact((void *)(uintptr_t)address);
    bool ok = alloc && alloc->memory == SI_DEVICE && share_with_processes(alloc);
    struct ipc ipc = {.pid = getpid(), .fd = ok ? alloc->fd : -1, .bytes = ok ? alloc->bytes : 0};
    pthread_mutex_unlock(&si_me.lock);
    memcpy(handle, &ipc, sizeof ipc);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    struct ipc ipc;
    char path[64];
    (void)flags;
    SI_TRY(si_need_context(NULL));
    memcpy(&ipc, &handle, sizeof ipc);
    if (ipc.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", ipc.pid, ipc.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
    void *base = mmap(NULL, ipc.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
    struct si_alloc *alloc = calloc(1, sizeof *alloc);
    if (!alloc) abort();
    *alloc = (struct si_alloc){.base = base, .bytes = ipc.bytes, .memory = SI_IMPORTED, .fd = -1};
    alloc->owner = owner_now();
    pthread_mutex_lock(&si_me.lock);
    si_alloc_add_locked(alloc);
    pthread_mutex_unlock(&si_me.lock);
    *address = (CUdeviceptr)(uintptr_t)base;
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    return release((void *)(uintptr_t)address, SI_IMPORTED, SI_IMPORTED);
}

/* Formats of the public enum: 1 to 3 are unsigned (8, 16, 32 bits), 8 to 10 signed, 16 half, 32 float. */
static uint64_t element_bytes(int format, unsigned channels)
{
    bool is_8 = format == 0x01 || format == 0x08, is_16 = format == 0x02 || format == 0x09 || format == 0x10;
    return (is_8 ? 1 : is_16 ? 2 : 4) * (uint64_t)channels;
}

static uint64_t at_least_1(size_t size) { return size ? size : 1; }

static CUresult make_array(struct si_array **array, uint64_t bytes)
{
    SI_TRY(si_need_context(NULL));
    if (!si_card_charge(si_me.card, si_me.card_fd, si_me.slot, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *array = calloc(1, sizeof **array);
    if (!*array) abort();
    (*array)->bytes = bytes;
    (*array)->owner = owner_now();
    pthread_mutex_lock(&si_me.lock);
    (*array)->next = arrays;
    arrays = *array;
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *what)
{
    if (!array || !what || !what->Width || !what->NumChannels) return CUDA_ERROR_INVALID_VALUE;
    return make_array(array, what->Width * at_least_1(what->Height) * element_bytes(what->Format, what->NumChannels));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *what)
{
    return cuMipmappedArrayCreate(array, what, 1);
}

CUresult cuArrayDestroy(CUarray array)
{
    SI_TRY(si_ready());
    pthread_mutex_lock(&si_me.lock);
    struct si_array **link = &arrays;
    while (*link && *link != array) link = &(*link)->next;
    bool known = array && *link;
    if (known) {
        *link = array->next;
        si_card_release(si_me.card, si_me.slot, array->bytes);
        free(array);
    }
    pthread_mutex_unlock(&si_me.lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *what, unsigned levels)
{
    uint64_t bytes = 0;
    if (!array || !what || !what->Width || !what->NumChannels || !levels) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned level = 0; level < levels && level < 32; level++) {
        uint64_t width = at_least_1(what->Width >> level), height = at_least_1(what->Height >> level);
        bytes += width * height * at_least_1(what->Depth >> level) * element_bytes(what->Format, what->NumChannels);
    }
    return make_array(array, bytes);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return cuArrayDestroy(array); }
