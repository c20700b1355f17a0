/* cuGetProcAddress by name, version and default stream mode, and error names. */
#include "standin.h"

#include <string.h>

typedef void (*any_function)(void);

struct entry { const char *name; int since; any_function plain, per_thread; };

#define SI_PLAIN(name, since) {#name, since, (any_function)name, NULL}
#define SI_AS(name, since, symbol) {#name, since, (any_function)symbol, NULL}
#define SI_PTSZ(name, since) {#name, since, (any_function)name, (any_function)name##_ptsz}
#define SI_PTSZ_AS(name, since, symbol) {#name, since, (any_function)symbol, (any_function)symbol##_ptsz}
#define SI_PTDS_AS(name, since, symbol) {#name, since, (any_function)symbol, (any_function)symbol##_ptds}

/* Versions of a name are in ascending order. */
static const struct entry entries[] = {
    SI_PLAIN(cuInit, 2000),
    SI_PLAIN(cuDriverGetVersion, 2020),
    SI_PLAIN(cuGetProcAddress, 11030),
    SI_AS(cuGetProcAddress, 12000, cuGetProcAddress_v2),
    SI_PLAIN(cuGetErrorName, 6000),
    SI_PLAIN(cuGetErrorString, 6000),
    SI_PLAIN(cuDeviceGet, 2000),
    SI_PLAIN(cuDeviceGetCount, 2000),
    SI_PLAIN(cuDeviceGetName, 2000),
    SI_PLAIN(cuDeviceGetUuid, 9020),
    SI_AS(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
    SI_PLAIN(cuDeviceGetPCIBusId, 4010),
    SI_AS(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2),
    SI_PLAIN(cuDeviceGetAttribute, 2000),
    SI_PLAIN(cuDeviceCanAccessPeer, 4000),
    SI_PLAIN(cuDevicePrimaryCtxRetain, 7000),
    SI_AS(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2),
    SI_AS(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2),
    SI_AS(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2),
    SI_PLAIN(cuDevicePrimaryCtxGetState, 7000),
    SI_AS(cuCtxCreate, 3020, cuCtxCreate_v2),
    SI_AS(cuCtxCreate, 11040, cuCtxCreate_v3),
    SI_AS(cuCtxCreate, 12050, cuCtxCreate_v4),
    SI_AS(cuCtxDestroy, 4000, cuCtxDestroy_v2),
    SI_PLAIN(cuCtxSetCurrent, 4000),
    SI_PLAIN(cuCtxGetCurrent, 4000),
    SI_AS(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2),
    SI_AS(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2),
    SI_PLAIN(cuCtxSynchronize, 2000),
    SI_PLAIN(cuCtxGetDevice, 2000),
    SI_PLAIN(cuCtxGetFlags, 7000),
    SI_PLAIN(cuCtxGetId, 12000),
    SI_PLAIN(cuCtxGetApiVersion, 3020),
    SI_PLAIN(cuCtxGetLimit, 3010),
    SI_PLAIN(cuCtxSetLimit, 3010),
    SI_PLAIN(cuCtxGetStreamPriorityRange, 5050),
    SI_PLAIN(cuStreamCreate, 2000),
    SI_PLAIN(cuStreamCreateWithPriority, 5050),
    SI_AS(cuStreamDestroy, 4000, cuStreamDestroy_v2),
    SI_PTSZ(cuStreamSynchronize, 2000),
    SI_PTSZ(cuStreamQuery, 2000),
    SI_PTSZ(cuStreamWaitEvent, 3020),
    SI_PTSZ(cuStreamGetPriority, 5050),
    SI_PTSZ(cuStreamGetFlags, 5050),
    SI_PTSZ(cuStreamGetId, 12000),
    SI_PTSZ(cuStreamGetCtx, 9020),
    SI_PTSZ(cuStreamAddCallback, 5000),
    SI_PTSZ(cuLaunchHostFunc, 10000),
    SI_PTSZ_AS(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2),
    SI_PTSZ(cuStreamBeginCaptureToGraph, 12030),
    SI_PTSZ(cuStreamEndCapture, 10000),
    SI_PTSZ(cuStreamIsCapturing, 10000),
    SI_PTSZ(cuStreamGetCaptureInfo, 10010),
    SI_PTSZ_AS(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2),
    SI_PTSZ_AS(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3),
    SI_PTSZ(cuStreamUpdateCaptureDependencies, 11030),
    SI_PTSZ_AS(cuStreamUpdateCaptureDependencies, 12030, cuStreamUpdateCaptureDependencies_v2),
    SI_PTSZ_AS(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2),
    SI_PTSZ_AS(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2),
    SI_PTSZ_AS(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2),
    SI_PTSZ_AS(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2),
    SI_PLAIN(cuThreadExchangeStreamCaptureMode, 10010),
    SI_PLAIN(cuEventCreate, 2000),
    SI_AS(cuEventDestroy, 4000, cuEventDestroy_v2),
    SI_PTSZ(cuEventRecord, 2000),
    SI_PTSZ(cuEventRecordWithFlags, 11010),
    SI_PLAIN(cuEventSynchronize, 2000),
    SI_PLAIN(cuEventQuery, 2000),
    SI_PLAIN(cuEventElapsedTime, 2000),
    SI_AS(cuEventElapsedTime, 12080, cuEventElapsedTime_v2),
    SI_PLAIN(cuModuleLoad, 2000),
    SI_PLAIN(cuModuleLoadData, 2000),
    SI_PLAIN(cuModuleLoadDataEx, 2010),
    SI_PLAIN(cuModuleLoadFatBinary, 2000),
    SI_PLAIN(cuModuleUnload, 2000),
    SI_PLAIN(cuModuleGetFunction, 2000),
    SI_AS(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2),
    SI_PLAIN(cuModuleGetLoadingMode, 11070),
    SI_PLAIN(cuLibraryLoadData, 12000),
    SI_PLAIN(cuLibraryUnload, 12000),
    SI_PLAIN(cuLibraryGetKernel, 12000),
    SI_PLAIN(cuLibraryGetModule, 12000),
    SI_PLAIN(cuKernelGetFunction, 12000),
    SI_PLAIN(cuKernelGetName, 12030),
    SI_PLAIN(cuKernelGetAttribute, 12000),
    SI_PLAIN(cuKernelSetAttribute, 12000),
    SI_PLAIN(cuFuncGetName, 12030),
    SI_PLAIN(cuFuncGetModule, 11000),
    SI_PLAIN(cuFuncGetAttribute, 2020),
    SI_PLAIN(cuFuncSetAttribute, 9000),
    SI_PLAIN(cuFuncSetCacheConfig, 3000),
    SI_PLAIN(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    SI_PLAIN(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000),
    SI_PTSZ(cuLaunchKernel, 4000),
    SI_PTSZ(cuLaunchKernelEx, 11060),
    SI_PTSZ(cuLaunchCooperativeKernel, 9000),
    SI_PLAIN(cuGraphCreate, 10000),
    SI_PLAIN(cuGraphInstantiate, 10000),
    SI_AS(cuGraphInstantiate, 11000, cuGraphInstantiate_v2),
    SI_PLAIN(cuGraphInstantiateWithFlags, 11040),
    SI_PTSZ(cuGraphUpload, 11010),
    SI_PTSZ(cuGraphLaunch, 10000),
    SI_PLAIN(cuGraphGetNodes, 10000),
    SI_PLAIN(cuGraphNodeGetType, 10000),
    SI_PLAIN(cuGraphGetEdges, 10000),
    SI_PLAIN(cuGraphAddMemAllocNode, 11040),
    SI_PLAIN(cuGraphAddMemFreeNode, 11040),
    SI_PLAIN(cuGraphAddNode, 12020),
    SI_AS(cuGraphAddNode, 12030, cuGraphAddNode_v2),
    SI_PLAIN(cuGraphMemAllocNodeGetParams, 11040),
    SI_PLAIN(cuDeviceGraphMemTrim, 11040),
    SI_PLAIN(cuDeviceGetGraphMemAttribute, 11040),
    SI_PLAIN(cuGraphExecDestroy, 10000),
    SI_PLAIN(cuGraphDestroy, 10000),
    SI_AS(cuMemGetInfo, 3020, cuMemGetInfo_v2),
    SI_AS(cuMemAlloc, 3020, cuMemAlloc_v2),
    SI_AS(cuMemAllocPitch, 3020, cuMemAllocPitch_v2),
    SI_PLAIN(cuMemAllocManaged, 6000),
    SI_AS(cuMemFree, 3020, cuMemFree_v2),
    SI_AS(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2),
    SI_AS(cuMemAllocHost, 3020, cuMemAllocHost_v2),
    SI_PLAIN(cuMemFreeHost, 2000),
    SI_PLAIN(cuMemHostAlloc, 2020),
    SI_AS(cuMemHostRegister, 6050, cuMemHostRegister_v2),
    SI_PLAIN(cuMemHostUnregister, 4000),
    SI_AS(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2),
    SI_PLAIN(cuMemHostGetFlags, 2030),
    SI_PLAIN(cuPointerGetAttribute, 4000),
    SI_PLAIN(cuIpcGetMemHandle, 4010),
    SI_AS(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2),
    SI_PLAIN(cuIpcCloseMemHandle, 4010),
    SI_AS(cuArrayCreate, 3020, cuArrayCreate_v2),
    SI_AS(cuArray3DCreate, 3020, cuArray3DCreate_v2),
    SI_PLAIN(cuArrayDestroy, 2000),
    SI_PLAIN(cuMipmappedArrayCreate, 5000),
    SI_PLAIN(cuMipmappedArrayDestroy, 5000),
    SI_PTSZ(cuMemAllocAsync, 11020),
    SI_PTSZ(cuMemAllocFromPoolAsync, 11020),
    SI_PTSZ(cuMemFreeAsync, 11020),
    SI_PLAIN(cuDeviceGetDefaultMemPool, 11020),
    SI_PLAIN(cuDeviceGetMemPool, 11020),
    SI_PLAIN(cuDeviceSetMemPool, 11020),
    SI_PLAIN(cuMemPoolCreate, 11020),
    SI_PLAIN(cuMemPoolDestroy, 11020),
    SI_PLAIN(cuMemPoolTrimTo, 11020),
    SI_PLAIN(cuMemPoolSetAttribute, 11020),
    SI_PLAIN(cuMemPoolGetAttribute, 11020),
    SI_PLAIN(cuMemPoolSetAccess, 11020),
    SI_PLAIN(cuMemGetAllocationGranularity, 10020),
    SI_PLAIN(cuMemCreate, 10020),
    SI_PLAIN(cuMemRelease, 10020),
    SI_PLAIN(cuMemRetainAllocationHandle, 11000),
    SI_PLAIN(cuMemExportToShareableHandle, 10020),
    SI_PLAIN(cuMemImportFromShareableHandle, 10020),
    SI_PLAIN(cuMemAddressReserve, 10020),
    SI_PLAIN(cuMemAddressFree, 10020),
    SI_PLAIN(cuMemMap, 10020),
    SI_PLAIN(cuMemUnmap, 10020),
    SI_PLAIN(cuMemSetAccess, 10020),
    {"cuMemcpy", 4000, (any_function)cuMemcpy, (any_function)cuMemcpy_ptds},
    SI_PTDS_AS(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2),
    SI_PTDS_AS(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2),
    SI_PTDS_AS(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2),
    SI_PTDS_AS(cuMemcpy2D, 3020, cuMemcpy2D_v2),
    SI_PTDS_AS(cuMemsetD8, 3020, cuMemsetD8_v2),
    SI_PTDS_AS(cuMemsetD16, 3020, cuMemsetD16_v2),
    SI_PTDS_AS(cuMemsetD32, 3020, cuMemsetD32_v2),
    SI_PTSZ(cuMemcpyAsync, 4000),
    SI_PTSZ_AS(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2),
    SI_PTSZ_AS(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2),
    SI_PTSZ_AS(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2),
    SI_PTSZ_AS(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2),
    SI_PTSZ(cuMemsetD8Async, 3020),
    SI_PTSZ(cuMemsetD16Async, 3020),
    SI_PTSZ(cuMemsetD32Async, 3020),
    SI_PLAIN(cuDeviceGetDevResource, 12040),
    SI_PLAIN(cuCtxGetDevResource, 12040),
    SI_PLAIN(cuGreenCtxGetDevResource, 12040),
    SI_PLAIN(cuDevSmResourceSplitByCount, 12040),
    SI_PLAIN(cuDevResourceGenerateDesc, 12040),
    SI_PLAIN(cuGreenCtxCreate, 12040),
    SI_PLAIN(cuGreenCtxDestroy, 12040),
    SI_PLAIN(cuCtxFromGreenCtx, 12040),
    SI_PLAIN(cuGreenCtxStreamCreate, 12040),
    SI_PLAIN(cuStreamGetGreenCtx, 12040),
    SI_PLAIN(cuGreenCtxRecordEvent, 12040),
    SI_PLAIN(cuGreenCtxWaitEvent, 12040),
};

static const struct entry *find(const char *name, int version, bool *known)
{
    const struct entry *found = NULL;
    *known = false;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].name, name) != 0) continue;
        *known = true;
        if (entries[i].since <= version) found = &entries[i];
    }
    return found;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    bool known;
    if (!name || !function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    const struct entry *entry = find(name, version, &known);
    *function = NULL;
    if (found) {
        *found = entry   ? CU_GET_PROC_ADDRESS_SUCCESS
                 : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    if (!entry) return CUDA_ERROR_NOT_FOUND;
    bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && entry->per_thread;
    any_function chosen = per_thread ? entry->per_thread : entry->plain;
    memcpy(function, &chosen, sizeof chosen);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

#define SI_ERROR(name) {name, #name}
static const struct { CUresult error; const char *name; } errors[] = {
    SI_ERROR(CUDA_SUCCESS),
    SI_ERROR(CUDA_ERROR_INVALID_VALUE),
    SI_ERROR(CUDA_ERROR_OUT_OF_MEMORY),
    SI_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    SI_ERROR(CUDA_ERROR_DEINITIALIZED),
    SI_ERROR(CUDA_ERROR_NO_DEVICE),
    SI_ERROR(CUDA_ERROR_INVALID_DEVICE),
    SI_ERROR(CUDA_ERROR_INVALID_IMAGE),
    SI_ERROR(CUDA_ERROR_INVALID_CONTEXT),
    SI_ERROR(CUDA_ERROR_MAP_FAILED),
    SI_ERROR(CUDA_ERROR_INVALID_SOURCE),
    SI_ERROR(CUDA_ERROR_FILE_NOT_FOUND),
    SI_ERROR(CUDA_ERROR_INVALID_HANDLE),
    SI_ERROR(CUDA_ERROR_ILLEGAL_STATE),
    SI_ERROR(CUDA_ERROR_NOT_FOUND),
    SI_ERROR(CUDA_ERROR_NOT_READY),
    SI_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    SI_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE),
    SI_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    SI_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    SI_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    SI_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
    SI_ERROR(CUDA_ERROR_NOT_PERMITTED),
    SI_ERROR(CUDA_ERROR_NOT_SUPPORTED),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
    SI_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    SI_ERROR(CUDA_ERROR_CAPTURED_EVENT),
    SI_ERROR(CUDA_ERROR_UNKNOWN),
};

CUresult cuGetErrorName(CUresult error, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].error == error) *text = errors[i].name;
    }
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }
