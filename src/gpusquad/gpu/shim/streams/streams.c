/* The caller's streams: a table by their names, and how they come and go. */
#include "streams/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct gs_stream *gs_stream_buckets[GS_BUCKETS];
struct gs_context *gs_contexts;
pthread_mutex_t gs_table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t table_version; /* grows when streams go: what threads remember is then void */
static CUdevice card = -1;     /* the device of the first context seen; others are left alone */
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

uint32_t gs_blocking_streams;

static __thread uint32_t thread_number;
static __thread struct {
  CUstream own;
  CUcontext context;
  struct gs_stream *stream;
  uint32_t version;
} last;

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
    if (card < 0) card = device;
    context->on_card = device == card;
    context->partitionable = context->on_card && is_primary(handle, device);
  }
  context->next = gs_contexts;
  GS_STORE(gs_contexts, context);
  return context;
}

/* False: the driver does not tell. */
static bool find_kind(CUstream own, uint32_t *kind) {
  unsigned int flags = 0;
  *kind = own == CU_STREAM_LEGACY ? GS_LEGACY : GS_PER_THREAD;
  if (gs_is_default(own)) return true;
  if (GS_CALL(cuStreamGetFlags)(own, &flags)) return false;
  *kind = flags & CU_STREAM_NON_BLOCKING ? GS_INDEPENDENT : GS_BLOCKING;
  return true;
}

/* Streams of green contexts that the program itself made stay where it put them. */
static bool placed_by_program(CUstream own) {
  CUgreenCtx green = NULL;
  if (gs_is_default(own) || !GS_HAS(cuStreamGetGreenCtx)) return false;
  return GS_CALL(cuStreamGetGreenCtx)(own, &green) == CUDA_SUCCESS && green;
}

static void at_thread_end(void *unused);

static void make_thread_key(void) { pthread_key_create(&thread_end, at_thread_end); }

static void order_with_legacy(struct gs_stream *stream) {
  stream->ordered = stream->context->ordered;
  stream->context->ordered = stream;
}

/* Its kind is nothing that a driver may be asked while it is captured: that spoils the capture, by whomever. Until it
 * is over, all that the stream is given stays there. */
static bool must_not_be_asked(CUstream own) { return !gs_is_default(own) && gs_stream_capturing(own, false); }

static struct gs_stream *add(CUstream own, CUcontext handle) {
  uint32_t kind;
  if (must_not_be_asked(own) || placed_by_program(own) || !find_kind(own, &kind)) return NULL;
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
    pthread_once(&thread_end_once, make_thread_key);
    pthread_setspecific(thread_end, stream);
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
  pthread_mutex_lock(&gs_table_lock);
  struct gs_stream *stream = find(own, context);
  if (!stream && may_add) {
    if (!context) context = gs_context_of(own);
    if (context) stream = add(own, context);
  }
  pthread_mutex_unlock(&gs_table_lock);
  return stream;
}

struct gs_stream *gs_stream_find(CUstream own, bool may_add) {
  CUcontext context = gs_is_default(own) ? gs_context_of(own) : NULL;
  uint32_t version = GS_LOAD(table_version);
  if (last.stream && last.own == own && last.context == context && last.version == version) return last.stream;
  struct gs_stream *stream = find_or_add(own, context, may_add);
  if (stream) {
    last.own = own;
    last.context = context;
    last.stream = stream;
    last.version = version;
  }
  return stream;
}

struct gs_stream *gs_stream_of(CUstream stream, bool per_thread) {
  return gs_stream_find(gs_stream_name(stream, per_thread), true);
}

/* Looking at all of them. */

void gs_streams_visit(void (*visit)(struct gs_stream *stream)) {
  pthread_mutex_lock(&gs_table_lock);
  for (uint32_t i = 0; i < GS_BUCKETS; i++)
    for (struct gs_stream *stream = gs_stream_buckets[i]; stream; stream = stream->next) {
      if (pthread_mutex_trylock(&stream->lock)) continue;
      visit(stream);
      pthread_mutex_unlock(&stream->lock);
    }
  pthread_mutex_unlock(&gs_table_lock);
}

/* Ends. */

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

/* The driver finishes what destroyed streams still have to do. */
static void discard(struct gs_stream *stream) {
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

/* Its last work still goes before all later work of the legacy stream, and whoever waits for all that the context does
 * waits for it: it ends on the caller's own stream. From there it is joined, so that a legacy stream on its own, which
 * nobody may touch while a blocking one is captured, is left alone. */
static void settle_last_work(struct gs_stream *stream) {
  struct gs_stream *legacy = gs_legacy_for(stream);
  if (stream->kind != GS_PER_THREAD) gs_move(stream, stream->own, GS_NO_PARTITION);
  if (!legacy) return;
  pthread_mutex_lock(&legacy->lock);
  gs_join_legacy(stream, legacy);
  pthread_mutex_unlock(&legacy->lock);
}

/* To one that is captured nothing can be given but what goes into the graph. */
static void end_of(struct gs_stream *stream, bool captured) {
  if (!captured) settle_last_work(stream);
  pthread_mutex_lock(&gs_table_lock);
  unlink_stream(stream);
  pthread_mutex_unlock(&gs_table_lock);
  discard(stream);
}

void gs_stream_destroyed(CUstream own) {
  if (gs_is_default(gs_stream_name(own, false))) return;
  struct gs_stream *stream = find_or_add(own, NULL, false);
  if (stream) end_of(stream, gs_stream_capturing(own, false));
}

static struct gs_stream *stream_of_thread(uint32_t thread) {
  for (struct gs_stream *stream = *bucket_of(CU_STREAM_PER_THREAD); stream; stream = stream->next)
    if (stream->own == CU_STREAM_PER_THREAD && stream->thread == thread) return stream;
  return NULL;
}

static void at_thread_end(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&gs_table_lock);
    struct gs_stream *stream = stream_of_thread(gs_this_thread());
    pthread_mutex_unlock(&gs_table_lock);
    if (!stream) return;
    end_of(stream, GS_LOAD(gs_active_captures)); /* its own stream has no name here any more that could be asked about */
  }
}

/* The streams of a context go with it; their handles must not be touched any more. gs_table_lock is held. */
bool gs_streams_drop_context(CUcontext handle) {
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
      *at = (*at)->next; /* not freed: threads may still look at it */
      break;
    }
  return had_partitions;
}

void gs_streams_forget(void) {
  memset(gs_stream_buckets, 0, sizeof gs_stream_buckets);
  gs_contexts = NULL;
  card = -1;
  gs_active_captures = gs_moved_streams = gs_blocking_streams = 0;
  table_version++;
  thread_number = 0;
  pthread_mutex_init(&gs_table_lock, NULL);
  pthread_rwlock_init(&gs_partitions_lock, NULL);
}

