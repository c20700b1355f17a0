/* What kernels are and how long they run: learned from a few launches timed by pairs of events, told to everybody in
 * the tenant's table. And how long an iteration takes: the launches of a program that loops repeat, so its progress
 * shows in the sequence of what it launches. */
#include <math.h>
#include <string.h>

#include "gate.h"

#define ROWS 4096u           /* kernels this process knows; a power of two */
#define PROBES 32u           /* looked at before a kernel counts as unknown */
#define FIRST_SAMPLES 3u     /* of a kernel are all taken */
#define SAMPLE_EVERY 64u     /* launches of a kernel, then one is timed */
#define SETTLED_SAMPLES 32u  /* after so many its time is known well */
#define SAMPLE_RARELY 256u   /* launches of such a kernel */
#define SETTLE_EVERY 16u     /* launches, while a sample is on its way */
#define LONGEST 4.0f         /* times the mean that one sample counts for */
#define MEMORY 16.0f         /* samples that the mean remembers */
#define DEFAULT_KERNEL_US 10.0f
#define DEFAULT_COPY_US 2.0f
#define COPY_BYTES_PER_US 20000.0f /* assumed of a copy never seen: 20 GB/s */

/* Kernels that spin until their peers on other cards run too. All lower case. */
static const char *const collectives[] = {
    "nccl",          "rccl",           "nvshmem",        "allreduce", "all_reduce",
    "allgather",     "all_gather",     "reducescatter",  "reduce_scatter", "alltoall",
    "all_to_all",    "cross_device_reduce", "multimem",  "one_shot_reduce", "two_shot_reduce",
};

static struct gs_learned rows[ROWS];
static struct gs_learned unknown = {.ready = 1, .row = -1};
static uint32_t samples_on_their_way;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

static uint64_t mix_name(uint64_t hash, const char *name) {
  for (; *name; name++) hash = mix(hash, (unsigned char)*name);
  return hash;
}

/* Copies are told apart by the power of two of their size. */
static uint32_t size_class(uint64_t bytes) { return bytes ? 64 - (uint32_t)__builtin_clzll(bytes) : 0; }

static uint64_t pair(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }

/* The products do not wait for each other: this is done at every launch. */
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
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    if (strstr(lower, collectives[i])) return true;
  return false;
}

/* The tenant's table. Rows are claimed once, by whoever sees a kernel first, and shared by all its processes. */

static int32_t claim_row(uint64_t identity, const char *name, const struct gs_work *work) {
  struct gs_tenant *tenant = gs_region.tenant;
  for (uint32_t i = 0; i < GS_KERNELS; i++) {
    struct gs_kernel *row = &tenant->kernel[i];
    uint64_t found = GS_LOAD(row->identity);
    if (found == identity) return (int32_t)i;
    if (found || !GS_SWAP_IF(row->identity, found, identity)) continue;
    GS_STORE(row->sequence, row->sequence | 1);
    memcpy(row->grid, work->grid, sizeof row->grid);
    memcpy(row->block, work->block, sizeof row->block);
    row->shared = work->shared;
    strncpy(row->name, name, sizeof row->name - 1);
    GS_STORE(row->sequence, (row->sequence | 1) + 1);
    GS_ADD(tenant->kernels, 1);
    return (int32_t)i;
  }
  return -1;
}

static void tell(const struct gs_learned *learned) {
  if (learned->row < 0) return;
  struct gs_kernel *row = &gs_region.tenant->kernel[learned->row];
  uint32_t even = GS_LOAD(row->sequence) & ~1u;
  if (!GS_SWAP_IF(row->sequence, even, even + 1)) return; /* another process tells of it right now */
  row->count++;
  row->mean_us = learned->mean_us;
  row->var = learned->var;
  GS_STORE(row->sequence, even + 2);
}

/* What an earlier process of the tenant found out, or the default. */
static void start_from(struct gs_learned *learned, const struct gs_work *work) {
  learned->mean_us = DEFAULT_KERNEL_US;
  if (work->kind == GS_COPY) learned->mean_us = DEFAULT_COPY_US + (float)work->bytes / COPY_BYTES_PER_US;
  if (learned->row < 0) return;
  const struct gs_kernel *row = &gs_region.tenant->kernel[learned->row];
  if (!GS_PEEK(row->count)) return;
  learned->mean_us = row->mean_us;
  learned->var = row->var;
}

static void introduce(struct gs_learned *learned, const struct gs_work *work) {
  const char *name = name_of(work);
  learned->identity = mix_shape(mix_name(0, name), work);
  if (work->kind == GS_GRAPH) learned->identity = mix(learned->identity, learned->key); /* graphs have no names */
  learned->collective = work->kind == GS_KERNEL && is_collective(name);
  learned->row = claim_row(learned->identity, name, work);
  start_from(learned, work);
  GS_STORE(learned->ready, 1);
}

static struct gs_learned *find(uint64_t key, const struct gs_work *work) {
  for (uint32_t i = 0; i < PROBES; i++) {
    struct gs_learned *row = &rows[((key >> 32) + i) & (ROWS - 1)];
    uint64_t found = GS_LOAD(row->key);
    if (found == 0 && GS_SWAP_IF(row->key, found, key)) {
      introduce(row, work);
      return row;
    }
    if (found == key) return GS_LOAD(row->ready) ? row : &unknown;
  }
  return &unknown;
}

/* Iterations. */

#define HISTORY 16384u /* launches remembered; a power of two. Iterations of up to half of that are found */
#define CHECK_EVERY 1024u
#define FIRST_CHECK 64u
#define LEAST_WINDOW 64u
#define TAIL 8u        /* launches that must repeat before a length is tried */
#define CANDIDATES 64u
#define STRAYS 50u     /* one in so many launches may differ between iterations */

static uint32_t history[HISTORY];
static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint32_t period; /* launches; 0: none found */
  uint64_t launch, ns; /* of the last look */
  uint64_t spare;  /* launches since the last whole iteration */
} progress;

static inline uint32_t at(uint64_t launch) { return GS_PEEK(history[launch & (HISTORY - 1)]); }

/* Whether the `window` launches before `end` repeat those one period earlier, but for a few strays. */
static bool repeats(uint64_t end, uint32_t period, uint64_t window) {
  uint64_t strays = window / STRAYS;
  for (uint64_t i = end - window; i < end; i++)
    if (at(i) != at(i - period) && strays-- == 0) return false;
  return true;
}

static uint64_t window_for(uint32_t period, uint64_t known) {
  uint64_t window = 3ull * period;
  if (window < LEAST_WINDOW) window = LEAST_WINDOW;
  if (window < known / 2) window = known / 2;
  return window + period <= known ? window : known - period;
}

static bool tail_repeats(uint64_t end, uint32_t period) {
  for (uint32_t i = 1; i <= TAIL; i++)
    if (at(end - i) != at(end - i - period)) return false;
  return true;
}

/* The shortest length after which the launches repeat; 0: none. */
static uint32_t find_period(uint64_t end) {
  uint64_t known = end < HISTORY ? end : HISTORY;
  uint32_t tried = 0;
  for (uint32_t period = 1; period <= known / 2 - TAIL && tried < CANDIDATES; period++) {
    if (!tail_repeats(end, period)) continue;
    tried++;
    uint64_t window = window_for(period, known);
    if (window >= period && repeats(end, period, window)) return period;
  }
  return 0;
}

static void tell_progress(uint64_t launches, uint64_t ns) {
  struct gs_process *process = gs_region.process;
  uint64_t whole = (progress.spare + launches) / progress.period;
  progress.spare = (progress.spare + launches) % progress.period;
  GS_STORE(process->iterations, GS_PEEK(process->iterations) + whole);
  GS_STORE(process->period_us, progress.period * ns / launches / 1000);
}

static void look_for_iterations(uint64_t end) {
  if (pthread_mutex_trylock(&progress_lock)) return;
  uint64_t now_ns = gs_now_ns(), launches = end - progress.launch;
  if (end > progress.launch) {
    bool same = progress.period && launches + progress.period <= HISTORY && repeats(end, progress.period, launches);
    if (!same) {
      progress.period = find_period(end);
      progress.spare = 0;
      if (!progress.period) GS_STORE(gs_region.process->period_us, 0);
    }
    if (progress.period) tell_progress(launches, now_ns - progress.ns);
    progress.launch = end;
    progress.ns = now_ns;
  }
  pthread_mutex_unlock(&progress_lock);
}

/* Rarely: at powers of two at first, so that short programs are seen too, then every so many launches. */
static bool time_to_look(uint64_t launch) {
  bool power_of_two = (launch & (launch - 1)) == 0;
  return (launch & (CHECK_EVERY - 1)) == 0 || (launch < CHECK_EVERY && launch >= FIRST_CHECK && power_of_two);
}

static void remember(uint64_t launch, uint64_t key) {
  __atomic_store_n(&history[launch & (HISTORY - 1)], (uint32_t)(key >> 16), __ATOMIC_RELAXED);
  if (GS_UNLIKELY(time_to_look(launch + 1))) look_for_iterations(launch + 1);
}

/* Samples. */

static bool sample_due(struct gs_learned *learned) {
  uint32_t seen = GS_PEEK(learned->seen), samples = GS_PEEK(learned->samples);
  __atomic_store_n(&learned->seen, seen + 1, __ATOMIC_RELAXED);
  if (samples < FIRST_SAMPLES) return true;
  return (seen & ((samples < SETTLED_SAMPLES ? SAMPLE_EVERY : SAMPLE_RARELY) - 1)) == 0;
}

/* The number of this launch among all. With threads at once two may get the same: the history then lacks one. */
static uint64_t count(const struct gs_work *work) {
  struct gs_process *process = gs_region.process;
  uint64_t before = GS_PEEK(process->launches) + GS_PEEK(process->copies) + GS_PEEK(process->graphs);
  uint64_t *of_kind = work->kind == GS_COPY    ? &process->copies
                      : work->kind == GS_GRAPH ? &process->graphs
                                               : &process->launches;
  __atomic_fetch_add(of_kind, 1, __ATOMIC_RELAXED);
  return before;
}

/* Counts a launch, and says what is due with it. */
struct gs_learned *gs_measure_note(const struct gs_work *work, uint32_t *due) {
  uint64_t key = mix_shape(mix(0, (uintptr_t)work->handle), work);
  uint64_t launch = count(work);
  struct gs_learned *learned = find(key, work);
  remember(launch, key);
  *due = learned != &unknown && sample_due(learned) ? GS_DUE_SAMPLE : 0;
  if (GS_PEEK(samples_on_their_way) && (launch & (SETTLE_EVERY - 1)) == 0) *due |= GS_DUE_LOOK;
  return learned;
}

uint64_t gs_measure_cost_ns(const struct gs_learned *learned, const struct gs_work *work) {
  float us = learned->mean_us;
  if (learned == &unknown)
    us = work->kind == GS_COPY ? DEFAULT_COPY_US + (float)work->bytes / COPY_BYTES_PER_US : DEFAULT_KERNEL_US;
  return (uint64_t)(us * 1000.0f);
}

static bool sample_events_made(struct gs_stream *stream) {
  if (stream->sample_last) return true;
  if (GS_CALL(cuEventCreate)(&stream->sample_first, CU_EVENT_DEFAULT)) return false;
  if (GS_CALL(cuEventCreate)(&stream->sample_last, CU_EVENT_DEFAULT) == CUDA_SUCCESS) return true;
  GS_CALL(cuEventDestroy_v2)(stream->sample_first);
  return false;
}

/* One at a time on a stream; nobody waits for it. */
void gs_measure_begin(struct gs_stream *stream, struct gs_learned *learned) {
  if (learned == &unknown || stream->sampling != GS_NO_SAMPLE || !sample_events_made(stream)) return;
  if (GS_CALL(cuEventRecord)(stream->sample_first, stream->current)) return;
  stream->sampled = learned;
  stream->sampling = GS_SAMPLE_BEGUN;
}

void gs_measure_end(struct gs_stream *stream, CUresult result) {
  if (stream->sampling != GS_SAMPLE_BEGUN) return;
  stream->sampling = GS_NO_SAMPLE;
  if (result || GS_CALL(cuEventRecord)(stream->sample_last, stream->current)) return;
  stream->sampling = GS_SAMPLE_ENDED;
  GS_ADD(samples_on_their_way, 1);
}

/* A mean in which the old is forgotten, because shares and neighbours change. The first launches may have waited for
 * their code to be loaded, so of those the shortest counts; and one long delay is not believed at once. */
static void learn(struct gs_learned *learned, float us) {
  uint32_t samples = GS_PEEK(learned->samples) + 1;
  if (samples <= FIRST_SAMPLES) {
    learned->mean_us = samples == 1 ? us : fminf(us, learned->mean_us);
    learned->var = 0.0f;
  } else {
    float step = 1.0f / fminf((float)(samples - FIRST_SAMPLES + 1), MEMORY);
    float off = fminf(us, LONGEST * learned->mean_us + 1.0f) - learned->mean_us;
    learned->mean_us += step * off;
    learned->var = (1.0f - step) * (learned->var + step * off * off);
  }
  GS_STORE(learned->samples, samples);
  tell(learned);
}

void gs_measure_settle(struct gs_stream *stream) {
  if (stream->sampling != GS_SAMPLE_ENDED) return;
  if (GS_CALL(cuEventQuery)(stream->sample_last) == CUDA_ERROR_NOT_READY) return;
  float ms;
  if (GS_CALL(cuEventElapsedTime)(&ms, stream->sample_first, stream->sample_last) == CUDA_SUCCESS)
    learn(stream->sampled, ms * 1000.0f);
  stream->sampling = GS_NO_SAMPLE;
  GS_SUB(samples_on_their_way, 1);
}

void gs_measure_drop(struct gs_stream *stream) {
  if (stream->sampling == GS_SAMPLE_ENDED) GS_SUB(samples_on_their_way, 1);
  stream->sampling = GS_NO_SAMPLE;
  if (!stream->sample_last) return;
  GS_CALL(cuEventDestroy_v2)(stream->sample_first);
  GS_CALL(cuEventDestroy_v2)(stream->sample_last);
}

void gs_measure_forget(void) {
  memset(rows, 0, sizeof rows);
  memset(&progress, 0, sizeof progress);
  samples_on_their_way = 0;
}
