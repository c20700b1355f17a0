/* Kernel times, learned from a few launches timed by pairs of events and reported in the client's table. */
#include <string.h>

#include "timing/running_mean.h"
#include "timing/timing.h"

#define ROWS 4096u           /* kernels known to this process; a power of two */
#define PROBES 32u           /* rows tried before a kernel counts as unknown */
#define EARLY_SAMPLES 8u     /* are taken soon, because the first may have been disturbed */
#define EARLY_INTERVAL 8u       /* launches of a kernel per early sample */
#define SAMPLE_INTERVAL 64u     /* launches of a kernel per sample */
#define MANY_SAMPLES 32u  /* after these its time is known well */
#define LATE_INTERVAL 256u   /* launches of such a kernel per sample */
#define SETTLE_INTERVAL 16u     /* launches between two looks at pending samples */
#define DEFAULT_KERNEL_US 10.0f
#define DEFAULT_COPY_US 2.0f
#define COPY_BYTES_PER_US 20000.0f /* assumed for a copy never timed: 20 GB/s */

/* Parts of names of kernels that spin until their peers on other cards run. All lower case. */
static const char *const collective_names[] = {
    "nccl",          "rccl",           "nvshmem",        "allreduce", "all_reduce",
    "allgather",     "all_gather",     "reducescatter",  "reduce_scatter", "alltoall",
    "all_to_all",    "cross_device_reduce", "multimem",  "one_shot_reduce", "two_shot_reduce",
};

static struct gs_kernel_info rows[ROWS];
/* For kernels without a row: there are too many, or another thread is writing the row. */
static struct gs_kernel_info unknown = {.ready = 1, .row = -1, .guessed = 1};
static struct gs_kernel_info unknown_but_short = {.ready = 1, .row = -1};
static uint32_t width_now;

/* On few SMs a kernel may take longer, so times are kept per power of two of the SM groups. */
static uint32_t width_of(uint64_t mask) {
  uint32_t groups = (uint32_t)__builtin_popcountll(mask);
  if (!groups) return 0; /* unrestricted */
  uint32_t width = 32 - (uint32_t)__builtin_clz(groups);
  return width < GS_WIDTHS ? width : GS_WIDTHS - 1;
}

uint32_t gs_measure_width_now(void) { return GS_PEEK(width_now); }

void gs_measure_set_mask(uint64_t mask) { GS_STORE(width_now, width_of(mask)); }

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

static uint64_t mix_name(uint64_t hash, const char *name) {
  for (; *name; name++) hash = mix(hash, (unsigned char)*name);
  return hash;
}

/* Copies are distinguished by the power of two of their size. */
static uint32_t size_class(uint64_t bytes) { return bytes ? 64 - (uint32_t)__builtin_clzll(bytes) : 0; }

static uint64_t pair(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }

/* The products do not depend on each other, because every launch computes this. */
static uint64_t mix_shape(uint64_t hash, const struct gs_work *work) {
  uint64_t sum = hash + pair(work->grid[1], work->grid[0]) * 0x9e3779b97f4a7c15u +
                 pair(work->block[0], work->grid[2]) * 0xc2b2ae3d27d4eb4fu +
                 pair(work->block[2], work->block[1]) * 0x165667b19e3779f9u +
                 pair(size_class(work->bytes), work->shared) * 0xd6e8feb86659fd93u;
  sum ^= sum >> 32;
  return mix(sum, work->kind) | 1; /* never 0 */
}

static const char *name_of(const struct gs_work *work) {
  const char *name = NULL;
  if (work->kind == GS_GRAPH) return "graph";
  if (work->kind == GS_COPY) return work->handle;
  if (GS_CALL(cuFuncGetName)(&name, (CUfunction)work->handle) == CUDA_SUCCESS && name) return name;
  if (GS_CALL(cuKernelGetName)(&name, (CUkernel)work->handle) == CUDA_SUCCESS && name) return name;
  return "unnamed";
}

static bool is_collective(const char *name) {
  char lower[256];
  size_t length = 0;
  for (; name[length] && length + 1 < sizeof lower; length++) {
    char c = name[length];
    lower[length] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
  }
  lower[length] = 0;
  for (size_t i = 0; i < sizeof collective_names / sizeof *collective_names; i++)
    if (strstr(lower, collective_names[i])) return true;
  return false;
}

/* The peers of a rank wait for all that it does before the next collective. So from the first collective on, no work of
 * this process is held, and paused work continues. */
static void note_collective(void) {
  if (!GS_PEEK(gs_region.process->uses_collectives)) GS_STORE(gs_region.process->uses_collectives, 1);
}

void gs_measure_captured(const struct gs_work *work) {
  if (work->kind == GS_KERNEL && is_collective(name_of(work))) note_collective();
}

/* The client's table. The first process that sees a kernel claims a row; all processes of the client share it. */

static int32_t claim_row(uint64_t identity, const char *name, const struct gs_work *work) {
  struct gs_client *client = gs_region.client;
  for (uint32_t i = 0; i < GS_KERNELS; i++) {
    struct gs_kernel *row = &client->kernel[i];
    uint64_t found = GS_LOAD(row->identity);
    if (found == identity) return (int32_t)i;
    if (found || !GS_SWAP_IF(row->identity, found, identity)) continue;
    GS_STORE(row->sequence, row->sequence | 1);
    memcpy(row->grid, work->grid, sizeof row->grid);
    memcpy(row->block, work->block, sizeof row->block);
    row->shared = work->shared;
    strncpy(row->name, name, sizeof row->name - 1);
    GS_STORE(row->sequence, (row->sequence | 1) + 1);
    GS_ADD(client->kernels, 1);
    return (int32_t)i;
  }
  return -1;
}

/* The unrestricted time is reported. Until it is known, the time on a partition is. */
static void report_time(const struct gs_kernel_info *info, uint32_t width) {
  if (info->row < 0 || (width && info->samples[0])) return;
  struct gs_kernel *row = &gs_region.client->kernel[info->row];
  uint32_t even = GS_LOAD(row->sequence) & ~1u;
  if (!GS_SWAP_IF(row->sequence, even, even + 1)) return; /* another process is writing it */
  row->count++;
  row->mean_us = info->mean_us[width];
  row->var = info->var[width];
  GS_STORE(row->sequence, even + 2);
}

/* What an earlier process of the client has measured, or the default. */
static void set_initial_time(struct gs_kernel_info *info, const struct gs_work *work) {
  float mean_us = DEFAULT_KERNEL_US, var = 0.0f;
  if (work->kind == GS_COPY) mean_us = DEFAULT_COPY_US + (float)work->bytes / COPY_BYTES_PER_US;
  const struct gs_kernel *row = info->row < 0 ? NULL : &gs_region.client->kernel[info->row];
  info->guessed = work->kind != GS_COPY; /* the size of a copy is enough */
  if (row && GS_PEEK(row->count)) {
    mean_us = row->mean_us;
    var = row->var;
    info->guessed = 0;
  }
  for (uint32_t width = 0; width < GS_WIDTHS; width++) {
    info->mean_us[width] = mean_us;
    info->var[width] = var;
  }
}

static void fill_row(struct gs_kernel_info *info, const struct gs_work *work) {
  const char *name = name_of(work);
  info->identity = mix_shape(mix_name(0, name), work);
  if (work->kind == GS_GRAPH) info->identity = mix(info->identity, info->key); /* graphs have no names */
  info->collective = work->kind == GS_KERNEL && is_collective(name);
  if (info->collective) note_collective();
  info->row = claim_row(info->identity, name, work);
  set_initial_time(info, work);
  GS_STORE(info->ready, 1);
}

static struct gs_kernel_info *find(uint64_t key, const struct gs_work *work) {
  for (uint32_t i = 0; i < PROBES; i++) {
    struct gs_kernel_info *row = &rows[((key >> 32) + i) & (ROWS - 1)];
    uint64_t found = GS_LOAD(row->key);
    if (found == 0 && GS_SWAP_IF(row->key, found, key)) {
      fill_row(row, work);
      return row;
    }
    /* Another thread is writing the row, and it may be a collective, which must not wait. */
    if (found == key) return GS_LOAD(row->ready) ? row : &unknown_but_short;
  }
  return work->kind == GS_COPY ? &unknown_but_short : &unknown;
}

/* Samples. */

static uint32_t samples_of(const struct gs_kernel_info *info) { return GS_PEEK(info->samples[GS_PEEK(width_now)]); }

static bool is_known(const struct gs_kernel_info *info) { return info->key; }

bool gs_measure_needs_samples(const struct gs_kernel_info *info) {
  return samples_of(info) + GS_PEEK(info->pending) < EARLY_SAMPLES;
}

static uint32_t sample_interval(uint32_t samples) {
  if (samples < GS_FIRST_SAMPLES) return 1;
  if (samples < EARLY_SAMPLES) return EARLY_INTERVAL;
  return samples < MANY_SAMPLES ? SAMPLE_INTERVAL : LATE_INTERVAL;
}

static bool sample_due(struct gs_kernel_info *info) {
  uint32_t seen = GS_PEEK(info->seen), samples = samples_of(info);
  __atomic_store_n(&info->seen, seen + 1, __ATOMIC_RELAXED);
  return (seen & (sample_interval(samples) - 1)) == 0;
}

/* Returns the number of this launch. Two threads at once may get the same number; then the history lacks one launch. */
static uint64_t count(const struct gs_work *work) {
  struct gs_process *process = gs_region.process;
  uint64_t *launches = &process->launches, *copies = &process->copies, *graphs = &process->graphs;
  if (GS_LIKELY(work->kind == GS_KERNEL))
    return __atomic_fetch_add(launches, 1, __ATOMIC_RELAXED) + GS_PEEK(*copies) + GS_PEEK(*graphs);
  uint64_t *of_kind = work->kind == GS_COPY ? copies : graphs;
  uint64_t before = GS_PEEK(*launches) + GS_PEEK(*copies) + GS_PEEK(*graphs);
  __atomic_fetch_add(of_kind, 1, __ATOMIC_RELAXED);
  return before;
}

/* Counts a launch and decides whether to time it. */
struct gs_kernel_info *gs_measure_launch(const struct gs_work *work, uint32_t *due) {
  uint64_t key = mix_shape(mix(0, (uintptr_t)work->handle), work);
  uint64_t launch = count(work);
  struct gs_kernel_info *info = find(key, work);
  gs_iterations_add_launch(launch, key);
  *due = is_known(info) && sample_due(info) ? GS_DUE_SAMPLE : 0;
  if (GS_PEEK(gs_pending_samples) && (launch & (SETTLE_INTERVAL - 1)) == 0) *due |= GS_DUE_SETTLE;
  return info;
}

uint64_t gs_measure_cost_ns(const struct gs_kernel_info *info, const struct gs_work *work) {
  float us = info->mean_us[GS_PEEK(width_now)];
  if (!is_known(info))
    us = work->kind == GS_COPY ? DEFAULT_COPY_US + (float)work->bytes / COPY_BYTES_PER_US : DEFAULT_KERNEL_US;
  return (uint64_t)(us * 1000.0f);
}

/* Unrestricted (0) counts as wider than the widest. */
static uint32_t distance(uint32_t one, uint32_t other) {
  uint32_t a = one ? one : GS_WIDTHS, b = other ? other : GS_WIDTHS;
  return a > b ? a - b : b - a;
}

/* A width that was never timed gets the time of the nearest timed width; of two equally near, the wider. */
static void fill_untimed_widths(struct gs_kernel_info *info, uint32_t from) {
  for (uint32_t width = 0; width < GS_WIDTHS; width++) {
    if (info->samples[width]) continue;
    uint32_t nearest = from;
    for (uint32_t other = 0; other < GS_WIDTHS; other++)
      if (info->samples[other] && distance(other, width) < distance(nearest, width)) nearest = other;
    info->mean_us[width] = info->mean_us[nearest];
    info->var[width] = info->var[nearest];
  }
}

void gs_measure_add_sample(struct gs_kernel_info *info, uint32_t width, float us) {
  uint32_t samples = GS_PEEK(info->samples[width]) + 1u;
  gs_running_mean(&info->mean_us[width], &info->var[width], samples, us);
  GS_STORE(info->samples[width], (uint8_t)(samples < UINT8_MAX ? samples : UINT8_MAX));
  GS_STORE(info->guessed, 0);
  if (samples <= GS_FIRST_SAMPLES) fill_untimed_widths(info, width);
  report_time(info, width);
}

void gs_measure_forget(void) {
  memset(rows, 0, sizeof rows);
  gs_iterations_forget();
  gs_pending_samples = width_now = 0;
}
