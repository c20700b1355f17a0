/* Where the work of each of the caller's streams goes, and in which order.
 *
 * A stream has a twin on every partition it has been on. When the partition changes, the new twin waits for an event on
 * the old one, so the order within a stream is kept across the move. Twins are non-blocking; the legacy default stream
 * orders itself before and after all blocking streams, and that is done here with events, as soon as one of the two is
 * not the caller's own (own streams do it by themselves).
 *
 * Locks, in the order they are taken: gs_places, legacy stream, table, stream. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate.h"

#define BUCKETS 256u
#define NOWHERE (-1)

static struct gs_stream *buckets[BUCKETS];
static struct gs_context *contexts;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static uint32_t table_version; /* grows when streams go: what threads remember is then void */
static CUdevice card = -1;     /* the device of the first context seen; others are left alone */
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

uint32_t gs_captures;
uint32_t gs_streams_moved;
uint32_t gs_blocking;

static __thread uint32_t thread_number;
static __thread struct {
  CUstream own;
  CUcontext context;
  struct gs_stream *stream;
  uint32_t version;
} last;

static uint32_t this_thread(void) {
  if (!thread_number) thread_number = (uint32_t)syscall(SYS_gettid);
  return thread_number;
}

/* One name for each stream: 0 means one of the two default streams. */
static CUstream named(CUstream stream, bool per_thread) {
  if (stream) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static bool is_default(CUstream own) { return own == CU_STREAM_LEGACY || own == CU_STREAM_PER_THREAD; }

/* The table. */

static struct gs_stream **bucket_of(CUstream own) {
  return &buckets[((uintptr_t)own * 0x9e3779b97f4a7c15u >> 32) % BUCKETS];
}

static struct gs_stream *find(CUstream own, CUcontext context) {
  for (struct gs_stream *stream = *bucket_of(own); stream; stream = stream->next) {
    if (stream->own != own) continue;
    if (is_default(own) && stream->context->handle != context) continue;
    if (own == CU_STREAM_PER_THREAD && stream->thread != this_thread()) continue;
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
  for (struct gs_context *context = contexts; context; context = context->next)
    if (context->handle == handle) return context;
  CUdevice device;
  struct gs_context *context = calloc(1, sizeof *context);
  if (!context) return NULL;
  context->handle = handle;
  if (GS_CALL(cuCtxGetDevice)(&device) == CUDA_SUCCESS) {
    if (card < 0) card = device;
    context->placeable = device == card && is_primary(handle, device);
  }
  context->next = contexts;
  GS_STORE(contexts, context);
  return context;
}

static uint32_t kind_of(CUstream own) {
  unsigned int flags = 0;
  if (own == CU_STREAM_LEGACY) return GS_LEGACY;
  if (own == CU_STREAM_PER_THREAD) return GS_PER_THREAD;
  GS_CALL(cuStreamGetFlags)(own, &flags);
  return flags & CU_STREAM_NON_BLOCKING ? GS_INDEPENDENT : GS_BLOCKING;
}

/* Streams of green contexts that the program itself made stay where it put them. */
static bool placed_by_program(CUstream own) {
  CUgreenCtx green = NULL;
  if (is_default(own) || !GS_HAS(cuStreamGetGreenCtx)) return false;
  return GS_CALL(cuStreamGetGreenCtx)(own, &green) == CUDA_SUCCESS && green;
}

static void at_thread_end(void *unused);

static void make_thread_key(void) { pthread_key_create(&thread_end, at_thread_end); }

static void order_with_legacy(struct gs_stream *stream) {
  stream->ordered = stream->context->ordered;
  stream->context->ordered = stream;
}

static struct gs_stream *add(CUstream own, CUcontext handle) {
  if (placed_by_program(own)) return NULL;
  struct gs_stream *stream = calloc(1, sizeof *stream);
  if (!stream || !(stream->context = context_of(handle))) {
    free(stream);
    return NULL;
  }
  stream->own = stream->current = own;
  stream->kind = kind_of(own);
  stream->place = NOWHERE;
  pthread_mutex_init(&stream->lock, NULL);
  GS_CALL(cuStreamGetPriority)(own, &stream->priority);
  if (stream->kind == GS_PER_THREAD) {
    stream->thread = this_thread();
    pthread_once(&thread_end_once, make_thread_key);
    pthread_setspecific(thread_end, stream);
  }
  if (stream->kind == GS_LEGACY) GS_STORE(stream->context->legacy, stream);
  if (stream->kind == GS_BLOCKING || stream->kind == GS_PER_THREAD) order_with_legacy(stream);
  stream->next = *bucket_of(own);
  *bucket_of(own) = stream;
  return stream;
}

static CUcontext context_now(CUstream own) {
  CUcontext context = NULL;
  if (is_default(own) || GS_CALL(cuStreamGetCtx)(own, &context)) GS_CALL(cuCtxGetCurrent)(&context);
  return context;
}

static struct gs_stream *find_or_add(CUstream own, CUcontext context, bool may_add) {
  pthread_mutex_lock(&table);
  struct gs_stream *stream = find(own, context);
  if (!stream && may_add) {
    if (!context) context = context_now(own);
    if (context) stream = add(own, context);
  }
  pthread_mutex_unlock(&table);
  return stream;
}

static struct gs_stream *stream_named(CUstream own, bool may_add) {
  CUcontext context = is_default(own) ? context_now(own) : NULL;
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
  return stream_named(named(stream, per_thread), true);
}

/* Moving. */

/* `behind` shall not begin anything new before what `first` has been given is done. */
static void follow(struct gs_stream *first, CUstream behind) {
  if (!first->hop && GS_CALL(cuEventCreate)(&first->hop, CU_EVENT_DISABLE_TIMING)) first->hop = NULL;
  if (first->hop && !GS_CALL(cuEventRecord)(first->hop, first->current) &&
      !GS_CALL(cuStreamWaitEvent)(behind, first->hop, 0))
    return;
  GS_CALL(cuStreamSynchronize)(first->current);
}

static void move(struct gs_stream *stream, CUstream to, int32_t place) {
  if (stream->current == to) return;
  follow(stream, to);
  if (stream->current == stream->own) GS_ADD(gs_streams_moved, 1);
  if (to == stream->own) GS_SUB(gs_streams_moved, 1);
  stream->current = to;
  stream->place = place;
}

static CUstream twin(struct gs_stream *stream, int32_t place) {
  CUstream *twin = &stream->twins[place];
  if (*twin) return *twin;
  if (gs_partition_stream((uint32_t)place, stream->priority, twin)) return *twin = NULL;
  if (!is_default(stream->own)) GS_CALL(cuStreamCopyAttributes)(*twin, stream->own);
  return *twin;
}

/* Unrestricted: the caller's own. But a per-thread stream has a name in its thread only; others must wait for it. */
static CUstream unrestricted(struct gs_stream *stream) {
  if (stream->kind != GS_PER_THREAD || gs_gate_alone()) return stream->own;
  if (!stream->home &&
      GS_CALL(cuStreamCreateWithPriority)(&stream->home, CU_STREAM_NON_BLOCKING, stream->priority))
    stream->home = NULL;
  return stream->home ? stream->home : stream->own;
}

static void go_to(struct gs_stream *stream, int32_t place) {
  CUstream to = place == NOWHERE ? NULL : twin(stream, place);
  if (to)
    move(stream, to, place);
  else
    move(stream, unrestricted(stream), NOWHERE);
}

static void tell_mask(uint64_t mask) {
  struct gs_process *process = gs_region.process;
  if (GS_PEEK(process->mask_now) == mask) return;
  GS_STORE(process->mask_now, mask);
  GS_ADD(process->moves, 1);
}

/* The partition for work of this context now. gs_places is held for reading. */
static int32_t place_now(const struct gs_context *context) {
  if (!context->placeable) return NOWHERE;
  uint64_t mask = gs_gate_mask();
  int32_t place = gs_partition_of(mask);
  tell_mask(place == NOWHERE ? 0 : mask);
  return place;
}

/* The legacy stream's order. */

static bool own_both(const struct gs_stream *one, const struct gs_stream *other) {
  return one->current == one->own && other->current == other->own;
}

/* A blocking stream begins nothing before the legacy stream's earlier work is done. Both are locked. */
static void follow_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  uint64_t serial = legacy->serial;
  if (stream->legacy_seen == serial) return;
  if (!own_both(stream, legacy)) follow(legacy, stream->current);
  stream->legacy_seen = serial;
}

/* What a stream has done goes before all later work of the legacy stream. Both are locked. A per-thread stream that is
 * on its own was not used since the legacy stream left its own, which waited for it then. */
static void join_legacy(struct gs_stream *stream, struct gs_stream *legacy) {
  if (stream->joined == stream->serial) return;
  bool named_here = stream->kind != GS_PER_THREAD || stream->current != stream->own;
  if (!own_both(stream, legacy) && named_here) follow(stream, legacy->current);
  stream->joined = stream->serial;
}

/* An event on a stream that is being captured would become part of the graph. */
static bool in_capture(const struct gs_stream *stream) {
  return GS_LOAD(gs_captures) && stream->current == stream->own && gs_capturing(stream->own, false);
}

static void join_all(struct gs_stream *legacy) {
  pthread_mutex_lock(&table);
  for (struct gs_stream *stream = legacy->context->ordered; stream; stream = stream->ordered) {
    pthread_mutex_lock(&stream->lock);
    if (!in_capture(stream)) join_legacy(stream, legacy);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&table);
}

/* While a blocking stream is captured nobody may touch the legacy one: who has yet to wait for it does so before. */
static void all_follow_legacy(struct gs_context *context) {
  struct gs_stream *legacy = context->legacy;
  if (!legacy) return;
  pthread_mutex_lock(&legacy->lock);
  pthread_mutex_lock(&table);
  for (struct gs_stream *stream = context->ordered; stream; stream = stream->ordered) {
    pthread_mutex_lock(&stream->lock);
    bool named_here = stream->kind != GS_PER_THREAD || stream->current != stream->own;
    if (named_here) follow_legacy(stream, legacy);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&table);
  pthread_mutex_unlock(&legacy->lock);
}

void gs_streams_before_capture(void) {
  CUcontext handle = NULL;
  if (GS_LOAD(gs_captures) || GS_CALL(cuCtxGetCurrent)(&handle) || !handle) return;
  pthread_rwlock_rdlock(&gs_places);
  for (struct gs_context *context = GS_LOAD(contexts); context; context = context->next)
    if (context->handle == handle) all_follow_legacy(context);
  pthread_rwlock_unlock(&gs_places);
}

static struct gs_stream *legacy_for(const struct gs_stream *stream) {
  bool ordered = stream->kind == GS_BLOCKING || stream->kind == GS_PER_THREAD;
  return ordered ? GS_LOAD(stream->context->legacy) : NULL;
}

static CUstream take(struct gs_stream *stream, bool on_own) {
  struct gs_stream *legacy = legacy_for(stream);
  bool frozen = GS_LOAD(gs_captures); /* nothing is made or moved while a graph is being captured */
  pthread_rwlock_rdlock(&gs_places);
  int32_t place = frozen || on_own ? NOWHERE : place_now(stream->context);
  if (legacy) pthread_mutex_lock(&legacy->lock);
  pthread_mutex_lock(&stream->lock);
  if (on_own)
    move(stream, stream->own, NOWHERE);
  else if (!frozen)
    go_to(stream, place);
  if (legacy) {
    follow_legacy(stream, legacy);
    pthread_mutex_unlock(&legacy->lock);
  }
  if (stream->kind == GS_LEGACY) join_all(stream);
  pthread_rwlock_unlock(&gs_places);
  stream->serial++;
  return stream->current;
}

CUstream gs_stream_take(struct gs_stream *stream) { return take(stream, false); }

CUstream gs_stream_take_own(struct gs_stream *stream) { return take(stream, true); }

void gs_stream_release(struct gs_stream *stream) { pthread_mutex_unlock(&stream->lock); }

/* Waiting for a stream moves nothing. But the legacy stream is done only when the blocking ones are. */
CUstream gs_stream_now(CUstream stream, bool per_thread) {
  struct gs_stream *known = stream_named(named(stream, per_thread), false);
  if (!known) known = gs_stream_of(stream, per_thread);
  if (!known) return stream;
  pthread_rwlock_rdlock(&gs_places);
  pthread_mutex_lock(&known->lock);
  if (known->kind == GS_LEGACY) join_all(known);
  CUstream now = known->current;
  pthread_mutex_unlock(&known->lock);
  pthread_rwlock_unlock(&gs_places);
  return now;
}

/* Looking at all of them. */

void gs_streams_visit(void (*visit)(struct gs_stream *stream)) {
  pthread_mutex_lock(&table);
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct gs_stream *stream = buckets[i]; stream; stream = stream->next) {
      if (pthread_mutex_trylock(&stream->lock)) continue;
      visit(stream);
      pthread_mutex_unlock(&stream->lock);
    }
  pthread_mutex_unlock(&table);
}

/* Another thread's default stream cannot be told to wait from here; it can be left once it is done. */
static void return_one(struct gs_stream *stream) {
  if (stream->current == stream->own) return;
  bool named_here = stream->kind != GS_PER_THREAD || stream->thread == this_thread();
  if (named_here) {
    move(stream, stream->own, NOWHERE);
  } else if (GS_CALL(cuStreamQuery)(stream->current) == CUDA_SUCCESS) {
    stream->current = stream->own;
    stream->place = NOWHERE;
    GS_SUB(gs_streams_moved, 1);
  }
}

bool gs_streams_return(void) {
  if (!GS_LOAD(gs_streams_moved)) return true;
  if (GS_LOAD(gs_captures)) return false;
  gs_streams_visit(return_one);
  if (GS_LOAD(gs_streams_moved)) return false;
  tell_mask(0);
  return true;
}

static void leave(struct gs_stream *stream, uint32_t partition) {
  CUstream old = stream->twins[partition];
  if (!old) return;
  if (stream->current == old) move(stream, unrestricted(stream), NOWHERE);
  if (stream->current == old) return; /* a stream that nobody here can name */
  GS_CALL(cuStreamSynchronize)(old);
  GS_CALL(cuStreamDestroy_v2)(old);
  stream->twins[partition] = NULL;
}

void gs_streams_evict(uint32_t partition) {
  pthread_mutex_lock(&table);
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct gs_stream *stream = buckets[i]; stream; stream = stream->next) {
      pthread_mutex_lock(&stream->lock);
      leave(stream, partition);
      pthread_mutex_unlock(&stream->lock);
    }
  pthread_mutex_unlock(&table);
}

void gs_streams_wait(void) {
  CUstream moved[64];
  uint32_t count = 0;
  if (!GS_LOAD(gs_streams_moved)) return;
  pthread_mutex_lock(&table);
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct gs_stream *stream = buckets[i]; stream && count < 64; stream = stream->next)
      if (GS_PEEK(stream->current) != stream->own) moved[count++] = stream->current;
  pthread_mutex_unlock(&table);
  for (uint32_t i = 0; i < count; i++) GS_CALL(cuStreamSynchronize)(moved[i]);
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
  if (stream->current != stream->own) GS_SUB(gs_streams_moved, 1);
  GS_ADD(table_version, 1);
}

/* The driver finishes what destroyed streams still have to do. */
static void discard(struct gs_stream *stream) {
  for (uint32_t i = 0; i < GS_PARTITIONS; i++)
    if (stream->twins[i]) GS_CALL(cuStreamDestroy_v2)(stream->twins[i]);
  if (stream->home) GS_CALL(cuStreamDestroy_v2)(stream->home);
  if (stream->hop) GS_CALL(cuEventDestroy_v2)(stream->hop);
  gs_flight_drop(stream);
  gs_measure_drop(stream);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

/* Its last work still goes before all later work of the legacy stream. */
static void end_of(struct gs_stream *stream) {
  struct gs_stream *legacy = legacy_for(stream);
  if (legacy && !GS_LOAD(gs_captures)) {
    pthread_mutex_lock(&legacy->lock);
    join_legacy(stream, legacy);
    pthread_mutex_unlock(&legacy->lock);
  }
  pthread_mutex_lock(&table);
  unlink_stream(stream);
  pthread_mutex_unlock(&table);
  discard(stream);
}

void gs_stream_destroyed(CUstream own) {
  if (is_default(named(own, false))) return;
  struct gs_stream *stream = find_or_add(own, NULL, false);
  if (stream) end_of(stream);
}

static struct gs_stream *stream_of_thread(uint32_t thread) {
  for (struct gs_stream *stream = *bucket_of(CU_STREAM_PER_THREAD); stream; stream = stream->next)
    if (stream->own == CU_STREAM_PER_THREAD && stream->thread == thread) return stream;
  return NULL;
}

static void at_thread_end(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&table);
    struct gs_stream *stream = stream_of_thread(this_thread());
    pthread_mutex_unlock(&table);
    if (!stream) return;
    end_of(stream);
  }
}

/* The streams of a context go with it; their handles must not be touched any more. True: partitions stood on it. */
bool gs_streams_context_gone(CUcontext handle) {
  bool had_partitions = false;
  pthread_mutex_lock(&table);
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct gs_stream **at = &buckets[i]; *at;) {
      struct gs_stream *stream = *at;
      if (stream->context->handle != handle) {
        at = &stream->next;
        continue;
      }
      unlink_stream(stream);
      free(stream);
    }
  for (struct gs_context **at = &contexts; *at; at = &(*at)->next)
    if ((*at)->handle == handle) {
      had_partitions = (*at)->placeable;
      *at = (*at)->next; /* not freed: threads may still look at it */
      break;
    }
  pthread_mutex_unlock(&table);
  return had_partitions;
}

void gs_streams_forget(void) {
  memset(buckets, 0, sizeof buckets);
  contexts = NULL;
  card = -1;
  gs_captures = gs_streams_moved = gs_blocking = 0;
  table_version++;
  thread_number = 0;
  pthread_mutex_init(&table, NULL);
  pthread_rwlock_init(&gs_places, NULL);
}

/* Capture. */

/* The legacy stream never is; asking it is an error while a blocking one is. */
bool gs_capturing(CUstream stream, bool per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (named(stream, per_thread) == CU_STREAM_LEGACY) return false;
  CUresult result = GS_CALL(cuStreamIsCapturing)(named(stream, per_thread), &status);
  return result || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Called by memory.c. */

bool gs_stream_capturing(CUstream stream) { return GS_LOAD(gs_captures) && gs_capturing(stream, false); }

CUstream gs_stream_real(CUstream stream, bool per_thread) {
  if (gs_quiet() || (GS_LOAD(gs_captures) && gs_capturing(stream, per_thread))) return stream;
  struct gs_stream *taken = gs_stream_of(stream, per_thread);
  if (!taken) return stream;
  CUstream real = gs_stream_take(taken);
  gs_stream_release(taken);
  return real;
}
