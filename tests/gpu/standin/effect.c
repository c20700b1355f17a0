/* The effect of work on memory when it ends, and its line in the log. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fault(void) { if (si_me.error == CUDA_SUCCESS) si_me.error = CUDA_ERROR_ILLEGAL_ADDRESS; }

static bool is_readable(CUdeviceptr address, size_t bytes)
{
    if (si_find_locked((void *)(uintptr_t)address, bytes)) return true;
    fault();
    return false;
}

/* The blocks write the numbers of the SMs that the kernel ran on, round-robin. */
static void apply_burn(const struct si_op *op)
{
    uint32_t blocks = op->kernel.grid[0], sm = 0, *cells = (uint32_t *)(uintptr_t)op->kernel.target;
    if (!si_mask_count(&op->kernel.used) || !is_readable(op->kernel.target, blocks * sizeof *cells)) return;
    for (uint32_t block = 0; block < blocks; block++, sm++) {
        while (!si_mask_has(&op->kernel.used, sm % (SI_WORDS * 64))) sm++;
        cells[block] = sm % (SI_WORDS * 64);
    }
}

static void apply_kernel(const struct si_op *op)
{
    if (op->kernel.effect == SI_BURN) {
        apply_burn(op);
        return;
    }
    if (op->kernel.effect == SI_NOTHING || !is_readable(op->kernel.target, sizeof(int))) return;
    unsigned *x = (unsigned *)(uintptr_t)op->kernel.target;
    *x = op->kernel.effect == SI_ADD ? *x + 1 : *x * 3 + 1;
}

static void apply_copy(const struct si_op *op)
{
    const char *from = op->copy.staged ? op->copy.staged : op->copy.from;
    for (size_t row = 0; row < op->copy.height; row++) {
        memmove(op->copy.to + row * op->copy.to_pitch, from + row * op->copy.from_pitch, op->copy.width);
    }
}

static void apply_set(const struct si_op *op)
{
    if (!is_readable(op->set.to, op->set.count * op->set.width)) return;
    char *to = (char *)(uintptr_t)op->set.to;
    if (op->set.width == 1) {
        memset(to, (int)op->set.value, op->set.count);
        return;
    }
    for (size_t i = 0; i < op->set.count; i++) memcpy(to + i * op->set.width, &op->set.value, op->set.width);
}

/* Comparisons 0 to 3: greater or equal (signed difference), equal, a common bit, a bit that neither has. */
bool si_has_value(const struct si_op *op)
{
    uint64_t now = 0, mask = op->set.width == 8 ? UINT64_MAX : UINT32_MAX;
    if (!is_readable(op->set.to, op->set.width)) return true;
    memcpy(&now, (const void *)(uintptr_t)op->set.to, op->set.width);
    uint64_t ahead = (now - op->set.value) & mask;
    switch (op->set.how & 3) {
    case 0: return ahead <= mask / 2;
    case 1: return now == op->set.value;
    case 2: return (now & op->set.value) != 0;
    default: return (~(now | op->set.value) & mask) != 0;
    }
}

void si_apply(struct si_op *op)
{
    if (si_me.error != CUDA_SUCCESS) return;
    if (op->kind == SI_KERNEL) apply_kernel(op);
    if (op->kind == SI_COPY) apply_copy(op);
    if (op->kind == SI_SET) apply_set(op);
    if (op->kind == SI_POOL_FREE) si_pool_reclaim_locked(op->alloc);
    if (op->kind == SI_GRAPH_FREE) si_graph_reclaim_locked(op->alloc);
}

static const char *kind_of(const struct si_op *op)
{
    static const char *names[] = {"kernel", "copy", "set", "host", "record", "wait",
                                  "free", "await", "alloc",  "free"};
    return op->from_graph && op->kind == SI_KERNEL ? "graph" : names[op->kind];
}

static void write_mask(char text[SI_WORDS * 16 + 1], const si_mask *mask)
{
    for (int i = 0; i < SI_WORDS; i++) {
        snprintf(text + 16 * i, 17, "%016llx", (unsigned long long)mask->w[SI_WORDS - 1 - i]);
    }
}

static void write_stream(char text[32], const struct si_stream *stream)
{
    if (stream->is_legacy) snprintf(text, 32, "legacy:%llu", stream->context->id);
    else if (stream->is_thread) snprintf(text, 32, "thread:%llu", stream->id);
    else snprintf(text, 32, "%llu", (unsigned long long)(uintptr_t)stream);
}

/* Columns: line, process, stream, kind, name, allowed SMs, used SMs, mean SMs, and the times of submission, start and
 * end in microseconds. Called with the card locked, so that line numbers increase in the file. */
void si_log(const struct si_op *op)
{
    char line[512], allowed[SI_WORDS * 16 + 1], used[SI_WORDS * 16 + 1], stream[32];
    if (si_me.log_fd < 0) return;
    double lasted_ns = (double)(op->end_ns - op->start_ns);
    write_mask(allowed, &op->allowed);
    write_mask(used, &op->kernel.used);
    write_stream(stream, op->stream);
    int length = snprintf(line, sizeof line, "%llu\t%d\t%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\n",
                          (unsigned long long)++si_me.card->lines, (int)getpid(), stream, kind_of(op),
                          op->kind == SI_KERNEL ? op->kernel.function->name : "-", allowed, used,
                          lasted_ns > 0 ? op->kernel.sm_ns / lasted_ns : 0.0, (double)op->submit_ns / 1e3,
                          (double)op->start_ns / 1e3, (double)op->end_ns / 1e3);
    if (write(si_me.log_fd, line, (size_t)length) != length) si_me.log_fd = -1;
}
