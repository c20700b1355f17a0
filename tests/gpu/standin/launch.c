/* Modules (texts that list kernels) and launches. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum si_effect effect_of(const char *name)
{
    if (strncmp(name, "add", 3) == 0) return SI_ADD;
    if (strncmp(name, "copy2", 5) == 0) return SI_COPY2;
    if (strncmp(name, "burn", 4) == 0) return SI_BURN;
    return SI_NOTHING;
}

/* A line is NAME:SMS:MICROSECONDS[:RANKS]. "*" as SMS: as many as blocks; as MICROSECONDS: the time is an argument.
 * With RANKS the kernel is a collective across processes: each rank spins on its SMs until all ranks run. */
static struct si_function *function_from(const char *line)
{
    char name[128], sms[16], duration[16];
    unsigned ranks = 0;
    if (sscanf(line, "%127[^: \n]:%15[^: \n]:%15[^: \n]:%u", name, sms, duration, &ranks) < 3) return NULL;
    struct si_function *function = calloc(1, sizeof *function);
    if (!function) abort();
    function->magic = SI_FUNCTION_MAGIC;
    strcpy(function->name, name);
    function->full_sms = *sms == '*' ? 0 : (uint32_t)atoi(sms);
    if (*sms != '*' && function->full_sms == 0) function->full_sms = si_me.card->sms;
    function->duration_us = *duration == '*' ? -1 : atoll(duration);
    function->effect = effect_of(name);
    function->ranks = ranks;
    return function;
}

static bool add_function(struct si_module *module, const char *line)
{
    struct si_function *function = function_from(line);
    if (!function) return false;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    return true;
}

static bool add_lines(struct si_module *module, const char *text)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        if (*text != '\n' && *text != '#' && !add_function(module, text)) return false;
    }
    return true;
}

/* PTX: kernels are the entries. A comment "//! NAME:SMS:MICROSECONDS" before an entry describes it; without one, the
 * kernel uses all SMs and its time is an argument. */
static bool add_entries(struct si_module *module, const char *text)
{
    static const char word[] = ".entry ", note[] = "//! ";
    const char *noted = text;
    for (const char *at = text; (at = strstr(at, word)) != NULL; noted = at) {
        char line[160], name[128];
        at += strlen(word);
        if (sscanf(at, "%127[A-Za-z0-9_$]", name) != 1) return false;
        snprintf(line, sizeof line, "%s:0:*", name);
        const char *spec = strstr(noted, note);
        if (spec && spec < at && strncmp(spec + strlen(note), name, strlen(name)) == 0) {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(spec + strlen(note), "\n"), spec + strlen(note));
        }
        if (!add_function(module, line)) return false;
    }
    return true;
}

CUresult si_module_from_text(struct si_module **module, const char *text)
{
    if (!module || !text) return CUDA_ERROR_INVALID_VALUE;
    struct si_module *created = calloc(1, sizeof *created);
    if (!created) abort();
    created->magic = SI_MODULE_MAGIC;
    bool is_ptx = strncmp(text, ".version", 8) == 0 || strncmp(text, "//", 2) == 0;
    if (!(is_ptx ? add_entries : add_lines)(created, text)) {
        free(created);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = created;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    SI_TRY(si_need_context(NULL));
    return si_module_from_text(module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    char text[65536];
    SI_TRY(si_need_context(NULL));
    FILE *file = fopen(path, "r");
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    return si_module_from_text(module, text);
}

static CUresult need_module(const struct si_module *module)
{
    SI_TRY(si_ready());
    return module && module->magic == SI_MODULE_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleUnload(CUmodule module)
{
    SI_TRY(need_module(module));
    module->magic = 0; /* not freed: running kernels still need their names */
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    SI_TRY(need_module(module));
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    for (struct si_function *each = module->functions; each; each = each->next) {
        *function = each;
        if (strcmp(each->name, name) == 0) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    (void)address, (void)bytes, (void)name;
    SI_TRY(need_module(module));
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(int *mode)
{
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options, void **jit_values,
                           unsigned jit_count, int *options, void **values, unsigned count)
{
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SI_TRY(si_ready());
    return si_module_from_text(library, code);
}

CUresult cuLibraryUnload(CUlibrary library) { return cuModuleUnload(library); }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return cuModuleGetFunction(kernel, library, name);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    SI_TRY(need_module(library));
    *module = library;
    return CUDA_SUCCESS;
}

static CUresult need_function(const struct si_function *function)
{
    SI_TRY(si_ready());
    return function && function->magic == SI_FUNCTION_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    SI_TRY(need_function(kernel));
    SI_TRY(si_need_context(NULL));
    *function = kernel;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    SI_TRY(need_function(function));
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) { return cuFuncGetName(name, kernel); }

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    SI_TRY(need_function(function));
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    static const int known[] = {1024, 0, 0, 0, 32, 90, 90, 0, 232448}; /* threads per block, ..., registers, versions */
    SI_TRY(need_function(function));
    *value = attribute >= 0 && attribute < (int)(sizeof known / sizeof *known) ? known[attribute] : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    (void)attribute, (void)value;
    return need_function(function);
}

CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device)
{
    (void)device;
    return cuFuncGetAttribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
    (void)device;
    return cuFuncSetAttribute(kernel, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    (void)config;
    return need_function(function);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared)
{
    SI_TRY(need_function(function));
    if (threads <= 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    *blocks = shared > 232448 ? 0 : 2048 / threads > 32 ? 32 : 2048 / threads;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags)
{
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* Arguments are a list of addresses or one packed buffer; all have eight bytes. */
static uint64_t argument(void **params, void **extra, int index)
{
    uint64_t value = 0;
    const char *at = params ? params[index] : NULL;
    if (at) {
        memcpy(&value, at, 8);
        return value;
    }
    for (void **each = extra; !params && each && *each != CU_LAUNCH_PARAM_END; each += 2) {
        if (*each == CU_LAUNCH_PARAM_BUFFER_POINTER) memcpy(&value, (const char *)each[1] + 8 * index, 8);
    }
    return value;
}

struct shape { unsigned grid[3], block[3], shared; bool overlaps; };

static CUresult check_shape(const struct shape *shape)
{
    uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
    uint64_t blocks = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
    if (!threads || threads > 1024 || !blocks || shape->shared > 232448) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static uint32_t sms_for(const struct si_function *function, const struct shape *shape)
{
    uint64_t blocks = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
    uint64_t full_sms = function->full_sms ? function->full_sms : blocks;
    return full_sms < si_me.card->sms ? (uint32_t)full_sms : si_me.card->sms;
}

static CUresult refuse(CUstream handle, CUresult result)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    result = si_capture_invalidate_locked(stream, result);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult launch(struct si_function *function, const struct shape *shape, CUstream stream, void **params,
                       void **extra)
{
    SI_TRY(need_function(function));
    CUresult fits = check_shape(shape);
    if (fits != CUDA_SUCCESS) return refuse(stream, fits);
    int next = 0;
    struct si_op *op = si_op_new(SI_KERNEL);
    op->kernel.function = function;
    op->kernel.full_sms = sms_for(function, shape);
    memcpy(op->kernel.grid, shape->grid, sizeof shape->grid);
    memcpy(op->kernel.block, shape->block, sizeof shape->block);
    op->kernel.effect = function->effect;
    op->kernel.overlaps = shape->overlaps;
    if (function->effect != SI_NOTHING) op->kernel.target = argument(params, extra, next++);
    int64_t duration_us = function->duration_us >= 0 ? function->duration_us : (int64_t)argument(params, extra, next);
    op->duration_ns = function->effect == SI_BURN ? duration_us : duration_us * 1000; /* burn: in cycles of 1 ns */
    return si_submit(stream, op, NULL);
}

static CUresult cuLaunchKernel_in(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                  CUstream stream, void **params, void **extra)
{
    struct shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, false};
    return launch(function, &shape, stream, params, extra);
}
SI_EXPORT_BOTH(cuLaunchKernel, _ptsz,
               (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params, void **extra),
               (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, extra))

static bool overlaps(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *each = &config->attrs[i];
        if (each->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && each->value[0]) return true;
    }
    return false;
}

static CUresult cuLaunchKernelEx_in(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    struct shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes,
                          overlaps(config)};
    return launch(function, &shape, config->hStream, params, extra);
}
SI_EXPORT_BOTH(cuLaunchKernelEx, _ptsz,
               (const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
               (config, function, params, extra))

/* All blocks must run at the same time, so they must fit on the SMs of the stream. */
static CUresult cuLaunchCooperativeKernel_in(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                             CUstream handle, void **params)
{
    struct shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, false};
    struct si_stream *stream;
    int blocks;
    CUresult fits = check_shape(&shape);
    if (fits != CUDA_SUCCESS) return refuse(handle, fits);
    SI_TRY(si_stream_of(handle, &stream));
    SI_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(block_x * block_y * block_z), shared));
    uint64_t capacity = (uint64_t)blocks * si_mask_count(&stream->allowed);
    if ((uint64_t)grid_x * grid_y * grid_z > capacity) return refuse(handle, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return launch(function, &shape, handle, params, NULL);
}
SI_EXPORT_BOTH(cuLaunchCooperativeKernel, _ptsz,
               (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params),
               (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params))
