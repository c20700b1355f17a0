/* Modules (a text that lists kernels) and their launch. */
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

/* A line is NAME:SMS:MICROSECONDS; "*" for the SMs: as many as blocks; for the time: an argument tells it. A fourth
 * number makes it a collective of so many ranks, in whatever processes: each spins on its SMs until all have begun. */
static struct si_function *function_from(const char *line)
{
    char name[128], sms[16], lasts[16];
    unsigned meets = 0;
    if (sscanf(line, "%127[^: \n]:%15[^: \n]:%15[^: \n]:%u", name, sms, lasts, &meets) < 3) return NULL;
    struct si_function *function = calloc(1, sizeof *function);
    if (!function) abort();
    function->magic = SI_FUNCTION_MAGIC;
    strcpy(function->name, name);
    function->wanted = *sms == '*' ? 0 : (uint32_t)atoi(sms);
    if (*sms != '*' && function->wanted == 0) function->wanted = si_me.card->sms;
    function->lasts_us = *lasts == '*' ? -1 : atoll(lasts);
    function->effect = effect_of(name);
    function->meets = meets;
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

/* PTX: kernels are known by their names; a comment "//! NAME:SMS:MICROSECONDS" before one says what a real card would
 * find in its code. Without it: all SMs, and an argument tells the time. */
static bool add_entries(struct si_module *module, const char *text)
{
    static const char word[] = ".entry ", note[] = "//! ";
    const char *noted = text;
    for (const char *at = text; (at = strstr(at, word)) != NULL; noted = at) {
        char line[160], name[128];
        at += strlen(word);
        if (sscanf(at, "%127[A-Za-z0-9_$]", name) != 1) return false;
        snprintf(line, sizeof line, "%s:0:*", name);
        const char *told = strstr(noted, note);
        if (told && told < at && strncmp(told + strlen(note), name, strlen(name)) == 0) {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(told + strlen(note), "\n"), told + strlen(note));
        }
        if (!add_function(module, line)) return false;
    }
    return true;
}

CUresult si_module_from_text(struct si_module **module, const char *text)
{
    if (!module || !text) return CUDA_ERROR_INVALID_VALUE;
    struct si_module *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->magic = SI_MODULE_MAGIC;
    bool is_ptx = strncmp(text, ".version", 8) == 0 || strncmp(text, "//", 2) == 0;
    if (!(is_ptx ? add_entries : add_lines)(made, text)) {
        free(made);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = made;
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
    module->magic = 0; /* kernels under way still need their names: the rest stays */
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    SI_TRY(need_module(module));
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    for (struct si_function *one = module->functions; one; one = one->next) {
        *function = one;
        if (strcmp(one->name, name) == 0) return CUDA_SUCCESS;
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
    static const int known[] = {1024, 0, 0, 0, 32, 90, 90, 0, 232448}; /* threads a block, ..., registers, versions */
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

/* Arguments come as a list of addresses or as one packed buffer; all of ours have eight bytes. */
static uint64_t argument(void **params, void **extra, int index)
{
    uint64_t value = 0;
    const char *at = params ? params[index] : NULL;
    if (at) {
        memcpy(&value, at, 8);
        return value;
    }
    for (void **one = extra; !params && one && *one != CU_LAUNCH_PARAM_END; one += 2) {
        if (*one == CU_LAUNCH_PARAM_BUFFER_POINTER) memcpy(&value, (const char *)one[1] + 8 * index, 8);
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
    uint64_t wanted = function->wanted ? function->wanted : blocks;
    return wanted < si_me.card->sms ? (uint32_t)wanted : si_me.card->sms;
}

static CUresult refuse(CUstream handle, CUresult result)
{
    struct si_stream *stream;
    SI_TRY(si_stream_of(handle, &stream));
    pthread_mutex_lock(&si_me.lock);
    result = si_capture_spoil_locked(stream, result);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static CUresult launch(struct si_function *function, const struct shape *shape, CUstream stream, void **params,
                       void **extra)
{
    SI_TRY(need_function(function));
    CUresult fits = check_shape(shape);
    if (fits != CUDA_SUCCESS) return refuse(stream, fits);
    int told = 0;
    struct si_op *op = si_op_new(SI_KERNEL);
    op->kernel.function = function;
    op->kernel.wanted = sms_for(function, shape);
    memcpy(op->kernel.grid, shape->grid, sizeof shape->grid);
    memcpy(op->kernel.block, shape->block, sizeof shape->block);
    op->kernel.effect = function->effect;
    op->kernel.overlaps = shape->overlaps;
    if (function->effect != SI_NOTHING) op->kernel.target = argument(params, extra, told++);
    int64_t lasts_us = function->lasts_us >= 0 ? function->lasts_us : (int64_t)argument(params, extra, told);
    op->lasts_ns = function->effect == SI_BURN ? lasts_us : lasts_us * 1000; /* cycles, of a card of 1 GHz */
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
        const CUlaunchAttribute *one = &config->attrs[i];
        if (one->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && one->value[0]) return true;
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

/* All its blocks must be on the card at once, so on the SMs of its stream. */
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
    uint64_t room = (uint64_t)blocks * si_mask_count(&stream->allowed);
    if ((uint64_t)grid_x * grid_y * grid_z > room) return refuse(handle, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return launch(function, &shape, handle, params, NULL);
}
SI_EXPORT_BOTH(cuLaunchCooperativeKernel, _ptsz,
               (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params),
               (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params))
