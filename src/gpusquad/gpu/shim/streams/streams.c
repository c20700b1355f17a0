/* The table of the caller's streams, by name; their creation and end. */
#include "streams/stream_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/in_flight.h"

struct gs_stream *gs_stream_buckets[GS_BUCKETS];
struct gs_context *gs_contexts;
pthread_mutex_t gs_table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t table_version; /* grows when a stream ends, which invalidates what threads have cached */
static CUdevice managed_device = -1;     /* of the first context seen; other devices are not managed */
static pthread_key_t thread_exit_key;
static pthread_once_t thread_exit_once = PTHREAD_ONCE_INIT;

uint32_t gs_blocking_streams;

static __thread uint32_t thread_number;
static __thread struct {
  CUstream own;
  CUcontext context;
  struct gs_stream *stream;
  uint32_t version;
} cached;

uint32_t gs_this_thread(void) {
  if (!thread_number) thread_number = (uint32_t)syscall(SYS_gettid);
  return thread_number;
}

CUstream gs_stream_name(CUstream stream, bool per_thread) {
  if (stream) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

bool gs_is_default(CUstream own) { return own == CU_STREAM_LEGACY || own == CU_STREAM_PER_THREAD; }

/* The table. */

static struct gs_stream **bucket_of(CUstream own) {
  return &gs_stream_buckets[((uintptr_t)own * 0x9e3779b97f4a7c15u >> 32) % GS_BUCKETS];
}

static struct gs_stream *find(CUstream own, CUcontext context) {
  for (struct gs_stream *stream = *bucket_of(own); stream; stream = stream->next) {
    if (stream->own != own) continue;
    if (gs_is_default(own) && stream->context->handle != context) continue;
    if (own == CU_STREAM_PER_THREAD && stream->thread != gs_this_thread()) continue;
    return stream;
  }
  return NULL;
}

static bool is_primary(CUcontext context, CUdevice device) {
  CUcontext primary = NULL;
  unsigned int flags;
  int active = 0;
  if (GS_CALL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || !active) return false;
  if (GS_CALL(cuDevicePrimaryCtxRetain)(&primary, device)) return false;
  GS_CALL(cuDevicePrimaryCtxRelease_v2)(device);
  return primary == context;
}

static struct gs_context *context_of(CUcontext handle) {
  for (struct gs_context *context = gs_contexts; context; context = context->next)
    if (context->handle == handle) return context;
  CUdevice device;
  struct gs_context *context = calloc(1, sizeof *context);
  if (!context) return NULL;
  context->handle = handle;
  if (GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS) {
    if (managed_device < 0) managed_device = device;
    context->on_card = device == managed_device;
    context->partitionable = context->on_card && is_primary(handle, device);
  }
  context->next = gs_contexts;
  GS_STORE(gs_contexts, context);
  return context;
}

/* False: the driver refused to answer. */
static bool find_kind(CUstream own, uint32_t *kind) {
  unsigned int flags = 0;
  *kind = own == CU_STREAM_LEGACY ? GS_LEGACY : GS_PER_THREAD;
  if (gs_is_default(own)) return true;
  if (GS_CALL(cuStreamGetFlags)(own, &flags)) return false;
  *kind = flags & CU_STREAM_NON_BLOCKING ? GS_INDEPENDENT : GS_BLOCKING;
  return true;
}

/* Streams of green contexts that the program itself created stay there. */
static bool is_partitioned_by_program(CUstream own) {
  CUgreenCtx green = NULL;
  if (gs_is_default(own) || !GS_HAS(cuStreamGetGreenCtx)) return false;
  return GS_CALL(cuStreamGetGreenCtx)(own, &green) == CUDA_SUCCESS && green;
}

static void on_thread_exit(void *unused);

static void make_thread_exit_key(void) { pthread_key_create(&thread_exit_key, on_thread_exit); }

static void order_with_legacy(struct gs_stream *stream) {
  stream->ordered = stream->context->ordered;
  stream->context->ordered = stream;
}

/* Querying the kind of a captured stream would invalidate the capture. Until the capture ends, all work of such a
 * stream stays on it. */
static bool must_not_be_queried(CUstream own) { return !gs_is_default(own) && gs_stream_capturing(own, false); }

static struct gs_stream *add(CUstream own, CUcontext handle) {
  uint32_t kind;
  if (must_not_be_queried(own) || is_partitioned_by_program(own) || !find_kind(own, &kind)) return NULL;
  struct gs_stream *stream = calloc(1, sizeof *stream);
  if (!stream || !(stream->context = context_of(handle))) {
    free(stream);
    return NULL;
  }
  stream->own = stream->current = own;
  stream->kind = kind;
  stream->partition = GS_NO_PARTITION;
  pthread_mutex_init(&stream->lock, NULL);
  GS_CALL(cuStreamGetPriority)(own, &stream->priority);
  if (stream->kind == GS_PER_THREAD) {
    stream->thread = gs_this_thread();
    pthread_once(&thread_exit_once, make_thread_exit_key);
    pthread_setspecific(thread_exit_key, stream);
  }
  if (stream->kind == GS_LEGACY) GS_STORE(stream->context->legacy, stream);
  if (stream->kind == GS_BLOCKING || stream->kind == GS_PER_THREAD) order_with_legacy(stream);
  stream->next = *bucket_of(own);
  *bucket_of(own) = stream;
  return stream;
}

CUcontext gs_context_of(CUstream own) {
  CUcontext context = NULL;
  if (gs_is_default(own) || GS_CALL(cuStreamGetCtx)(own, &context)) GS_CALL(cuCtxGetCurrent)(&context);
  return context;
}

static struct gs_stream *find_or_add(CUstream own, CUcontext context, bool may_add) {
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  struct gs_stream *stream = find(own, context);
  if (!stream && may_add) {
    if (!context) context = gs_context_of(own);
    if (context) stream = add(own, context);
  }
  gs_unlock(&gs_table_lock);
  return stream;
}

struct gs_stream *gs_stream_find(CUstream own, bool may_add) {
  CUcontext context = gs_is_default(own) ? gs_context_of(own) : NULL;
  uint32_t version = GS_LOAD(table_version);
  bool is_cached = cached.own == own && cached.context == context && cached.version == version;
  if (cached.stream && is_cached) return cached.stream;
  struct gs_stream *stream = find_or_add(own, context, may_add);
  if (stream) {
    cached.own = own;
    cached.context = context;
    cached.stream = stream;
    cached.version = version;
  }
  return stream;
}

struct gs_stream *gs_stream_of(CUstream stream, bool per_thread) {
  return gs_stream_find(gs_stream_name(stream, per_thread), true);
}

/* Visits. */

void gs_streams_visit(void (*visit)(struct gs_stream *stream)) {
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream; stream = stream->next) {
      if (!gs_stream_try_lock(stream)) continue;
      visit(stream);
      gs_stream_release(stream);
    }
  gs_unlock(&gs_table_lock);
}

/* The end of a stream. */

static void unlink_ordered(struct gs_stream *stream) {
  for (struct gs_stream **at = &stream->context->ordered; *at; at = &(*at)->ordered)
    if (*at == stream) {
      *at = stream->ordered;
      return;
    }
}

static void unlink_stream(struct gs_stream *stream) {
  for (struct gs_stream **at = bucket_of(stream->own); *at; at = &(*at)->next)
    if (*at == stream) {
      *at = stream->next;
      break;
    }
  unlink_ordered(stream);
  if (stream->context->legacy == stream) GS_STORE(stream->context->legacy, NULL);
  if (stream->current != stream->own) GS_SUB(gs_moved_streams, 1);
  GS_ADD(table_version, 1);
}

/* The driver completes the pending work of destroyed streams. */
static void destroy(struct gs_stream *stream) {
  for (uint32_t i = 0; i < GS_PARTITIONS; i++)
    if (stream->twins[i]) GS_CALL(cuStreamDestroy_v2)(stream->twins[i]);
  for (uint32_t i = 0; i < GS_LEVELS; i++)
    if (stream->raised[i]) GS_CALL(cuStreamDestroy_v2)(stream->raised[i]);
  if (stream->default_twin) GS_CALL(cuStreamDestroy_v2)(stream->default_twin);
  if (stream->order_event) GS_CALL(cuEventDestroy_v2)(stream->order_event);
  gs_detour_drop(&stream->detour);
  gs_flight_destroy(stream);
  gs_samples_destroy(stream);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

/* The last work of a stream still precedes all later work of the legacy stream, and a wait for the whole context
 * includes it. So it moves back to the caller's own stream, and the legacy stream waits for it there. Joined there, a
 * legacy stream that is on its own stream needs no event, which a capture of a blocking stream would forbid.
 *
 * The stream is still in the table, so the watcher and other threads may use it: they move it back or evict it from its
 * partition. Without its lock both threads would move it. */
static void move_last_work_back(struct gs_stream *stream) {
  struct gs_stream *legacy = gs_legacy_for(stream);
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  if (legacy) gs_stream_lock(legacy);
  gs_stream_lock(stream);
  if (stream->kind != GS_PER_THREAD) gs_move(stream, stream->own, GS_NO_PARTITION);
  if (legacy) gs_join_legacy(stream, legacy);
  gs_stream_release(stream);
  if (legacy) gs_stream_release(legacy);
  gs_rw_unlock(&gs_partitions_lock);
}

/* A captured stream accepts no work that is not part of the graph. */
static void end_stream(struct gs_stream *stream, bool captured) {
  if (!captured) move_last_work_back(stream);
  gs_lock(&gs_table_lock, GS_RANK_TABLE);
  unlink_stream(stream);
  gs_unlock(&gs_table_lock);
  destroy(stream);
}

void gs_stream_destroyed(CUstream own) {
  if (gs_is_default(gs_stream_name(own, false))) return;
  struct gs_stream *stream = find_or_add(own, NULL, false);
  if (stream) end_stream(stream, gs_stream_capturing(own, false));
}

static struct gs_stream *stream_of_thread(uint32_t thread) {
  for (struct gs_stream *stream = *bucket_of(CU_STREAM_PER_THREAD); stream; stream = stream->next)
    if (stream->own == CU_STREAM_PER_THREAD && stream->thread == thread) return stream;
  return NULL;
}

static void on_thread_exit(void *unused) {
  (void)unused;
  for (;;) {
    gs_lock(&gs_table_lock, GS_RANK_TABLE);
    struct gs_stream *stream = stream_of_thread(gs_this_thread());
    gs_unlock(&gs_table_lock);
    if (!stream) return;
    end_stream(stream, GS_LOAD(gs_active_captures)); /* its own stream can no longer be queried here */
  }
}

/* The streams of a context end with it, so their handles must not be used any more. */
bool gs_streams_drop_context(CUcontext handle) {
  GS_ASSERT_HELD(&gs_table_lock);
  bool had_partitions = false;
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream **at = &gs_stream_buckets[i]; *at;) {
      struct gs_stream *stream = *at;
      if (stream->context->handle != handle) {
        at = &stream->next;
        continue;
      }
      unlink_stream(stream);
      gs_flight_abandon(stream);
      gs_samples_abandon(stream);
      free(stream);
    }
  for (struct gs_context **at = &gs_contexts; *at; at = &(*at)->next)
    if ((*at)->handle == handle) {
      had_partitions = (*at)->partitionable;
      *at = (*at)->next; /* not freed: other threads may still read it */
      break;
    }
  return had_partitions;
}

void gs_streams_forget(void) {
  memset(gs_stream_buckets, 0, sizeof gs_stream_buckets);
  gs_contexts = NULL;
  managed_device = -1;
  gs_active_captures = gs_moved_streams = gs_blocking_streams = 0;
  table_version++;
  thread_number = 0;
  pthread_mutex_init(&gs_table_lock, NULL);
  pthread_rwlock_init(&gs_partitions_lock, NULL);
}

