/* Virtual memory management: memory (a private file) and addresses are created separately and then mapped. */
#define _GNU_SOURCE
#include "standin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SI_GRAIN ((size_t)2 << 20)

struct si_backing { int holders, fd; size_t bytes, charged_bytes; };

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option)
{
    (void)option;
    SI_TRY(si_ready());
    if (!bytes || !prop) return CUDA_ERROR_INVALID_VALUE;
    *bytes = SI_GRAIN;
    return CUDA_SUCCESS;
}

/* Counted until it is released and no longer mapped. */
static void release_backing(struct si_backing *backing)
{
    if (--backing->holders) return;
    close(backing->fd);
    si_card_release(si_me.card, si_me.slot, backing->charged_bytes);
    free(backing);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    SI_TRY(si_ready());
    if (!handle || !prop || flags || !bytes || bytes % SI_GRAIN) return CUDA_ERROR_INVALID_VALUE;
    if (!si_card_charge(si_me.card, si_me.card_fd, si_me.slot, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    struct si_backing *backing = calloc(1, sizeof *backing);
    if (!backing) abort();
    *backing = (struct si_backing){1, memfd_create("standin-vmm", MFD_CLOEXEC), bytes, bytes};
    if (backing->fd < 0 || ftruncate(backing->fd, (off_t)bytes) != 0) {
        release_backing(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)backing;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SI_TRY(si_ready());
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&si_me.lock);
    release_backing((struct si_backing *)(uintptr_t)handle);
    pthread_mutex_unlock(&si_me.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    SI_TRY(si_ready());
    pthread_mutex_lock(&si_me.lock);
    struct si_alloc *alloc = si_find_locked(address, 1);
    bool ok = handle && alloc && alloc->backing;
    if (ok) {
        alloc->backing->holders++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)alloc->backing;
    }
    pthread_mutex_unlock(&si_me.lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Exports only as a file descriptor (type 1). */
CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags)
{
    SI_TRY(si_ready());
    if (!shareable || !handle || flags) return CUDA_ERROR_INVALID_VALUE;
    if (type != 1) return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)shareable = fcntl(((struct si_backing *)(uintptr_t)handle)->fd, F_DUPFD_CLOEXEC, 0);
    return CUDA_SUCCESS;
}

/* Imported memory is counted by the process that created it. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, int type)
{
    struct stat file;
    SI_TRY(si_ready());
    if (type != 1) return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    if (!handle || fd < 0 || fstat(fd, &file) != 0) return CUDA_ERROR_INVALID_VALUE;
    struct si_backing *backing = calloc(1, sizeof *backing);
    if (!backing) abort();
    *backing = (struct si_backing){1, fd, (size_t)file.st_size, 0};
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)backing;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    (void)wish, (void)alignment;
    SI_TRY(si_ready());
    if (!address || flags || !bytes || bytes % SI_GRAIN) return CUDA_ERROR_INVALID_VALUE;
    char *base = mmap(NULL, bytes + SI_GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    char *aligned = (char *)(((uintptr_t)base + SI_GRAIN - 1) / SI_GRAIN * SI_GRAIN);
    if (aligned > base) munmap(base, (size_t)(aligned - base));
    if (aligned + bytes < base + bytes + SI_GRAIN) munmap(aligned + bytes, (size_t)(base + SI_GRAIN - aligned));
    *address = (CUdeviceptr)(uintptr_t)aligned;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    SI_TRY(si_ready());
    return munmap((void *)(uintptr_t)address, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    struct si_backing *backing = (struct si_backing *)(uintptr_t)handle;
    SI_TRY(si_ready());
    if (!backing || flags || offset || bytes % SI_GRAIN || bytes > backing->bytes) return CUDA_ERROR_INVALID_VALUE;
    void *base = (void *)(uintptr_t)address;
    pthread_mutex_lock(&si_me.lock);
    CUresult result = si_find_locked(base, 1) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, backing->fd, 0) == MAP_FAILED) {
        result = CUDA_ERROR_MAP_FAILED;
    }
    if (result == CUDA_SUCCESS) {
        struct si_alloc *alloc = calloc(1, sizeof *alloc);
        if (!alloc) abort();
        *alloc = (struct si_alloc){.base = base, .bytes = bytes, .memory = SI_MAPPED, .fd = -1, .backing = backing};
        backing->holders++;
        si_alloc_add_locked(alloc);
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

/* Removes all mappings of the range. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    SI_TRY(si_ready());
    char *from = (char *)(uintptr_t)address, *to = from + bytes;
    pthread_mutex_lock(&si_me.lock);
    si_wait_for_all_locked();
    CUresult result = CUDA_SUCCESS;
    while (from < to && result == CUDA_SUCCESS) {
        struct si_alloc *alloc = si_find_locked(from, 1);
        if (!alloc || alloc->memory != SI_MAPPED || alloc->base != from || from + alloc->bytes > to) {
            result = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        si_alloc_forget_locked(alloc);
        mmap(from, alloc->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        from += alloc->bytes;
        release_backing(alloc->backing);
        free(alloc);
    }
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    SI_TRY(si_ready());
    if (!access || !count) return CUDA_ERROR_INVALID_VALUE;
    int protection = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                     : access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                         : PROT_NONE;
    return mprotect((void *)(uintptr_t)address, bytes, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
