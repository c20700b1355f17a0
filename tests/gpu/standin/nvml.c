/* The NVML functions that report memory and processes of the card. */
#include "card.h"

#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(default)

typedef int nvmlReturn_t;
enum { NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6, NVML_TOO_SMALL = 7,
       NVML_UNKNOWN = 999 };
typedef struct si_card *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static struct si_card *card;
static int card_fd = -1;

nvmlReturn_t nvmlInit_v2(void)
{
    if (!card) card = si_card_open(&card_fd);
    return card ? NVML_SUCCESS : NVML_UNKNOWN;
}

nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void) { return card ? NVML_SUCCESS : NVML_UNINITIALIZED; }

const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS ? "success" : "error of the stand-in";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 1;
    return card ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!card) return NVML_UNINITIALIZED;
    if (index) return NVML_INVALID_ARGUMENT;
    *device = card;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    char text[41];
    if (!device || length < sizeof text) return device ? NVML_TOO_SMALL : NVML_INVALID_ARGUMENT;
    si_uuid_text(device, text);
    memcpy(uuid, text, sizeof text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    char text[41];
    if (!card) return NVML_UNINITIALIZED;
    si_uuid_text(card, text);
    if (strcmp(text, uuid) != 0) return NVML_NOT_FOUND;
    *device = card;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    if (!device) return NVML_INVALID_ARGUMENT;
    snprintf(name, length, "stand-in");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    if (!card) return NVML_UNINITIALIZED;
    snprintf(version, length, "stand-in");
    return NVML_SUCCESS;
}

static unsigned long long used_now(struct si_card *device)
{
    si_card_lock(device);
    si_card_reap(device, card_fd, -1);
    unsigned long long used = si_card_used(device);
    si_card_unlock(device);
    return used;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    if (!device || !memory) return NVML_INVALID_ARGUMENT;
    memory->total = device->memory_bytes;
    memory->used = used_now(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    if (!device || !memory) return NVML_INVALID_ARGUMENT;
    memory->total = device->memory_bytes;
    memory->reserved = 0;
    memory->used = used_now(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos)
{
    unsigned listed = 0, capacity = *count;
    if (!device) return NVML_INVALID_ARGUMENT;
    si_card_lock(device);
    si_card_reap(device, card_fd, -1);
    for (int i = 0; i < SI_PROCS; i++) {
        const struct si_slot *slot = &device->slots[i];
        if (!slot->live || !slot->used_bytes) continue; /* a process without a context does not use the card */
        if (listed < capacity && infos) {
            infos[listed] = (nvmlProcessInfo_t){(unsigned)slot->pid, slot->used_bytes, 0xffffffffu, 0xffffffffu};
        }
        listed++;
    }
    si_card_unlock(device);
    *count = listed;
    return listed > capacity ? NVML_TOO_SMALL : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

#pragma GCC visibility pop
