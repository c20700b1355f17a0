/* Graphs on a virtual card. What is captured keeps the SMs of the stream that it was given to, wherever the graph is
 * launched, and cannot be moved later. The SMs of a virtual card are the same for as long as its tenant lives, so
 * there a kernel goes into the graph by a detour: to a stream of the card's partition, which an event draws into the
 * capture and another joins to the caller's own stream again. Events leave nothing in a graph, and both streams are
 * told exactly what they are behind: the graph has the nodes and the edges that it would have had.
 *
 * Copies and memsets stay on the caller's own stream: a share of SMs promises nothing of them. (So a graph that has
 * them is one of two contexts, and the vendor lets only those of one be launched by kernels.) Left there too, and so
 * on the whole card, is what might not be the same elsewhere: kernels that set an event before they end or that the
 * card may change later, grids and clusters that must fit at once and may not, and captures into a graph of the
 * program's own, for in bodies of conditional nodes all kernels must be of one context. So is whatever fails on the
 * way there. A launch that the driver refuses is not tried again: as a rule it has spoilt the capture.
 *
 * While a kernel is away, nothing else may be given to its stream: it would be forgotten when that is put behind the
 * kernel. So all that is captured there takes the stream's lock.
 *
 * Attributes of the caller's stream (windows of L2, domains of memory) are those of the detour too if the capture began
 * with it, and not if it was drawn in. Kernels that a program puts into a graph node by node are not seen at all. */
#include <string.h>

#include "streams/streams.h"

#define MOST_ATTRIBUTES 32u
#define MOST_PORTABLE_CLUSTER 8u
#define CAPTURES_ELSEWHERE 256u

/* Captures into what is not the driver's own graph. Their numbers are never used again, so old ones may stay. */
static cuuint64_t elsewhere[CAPTURES_ELSEWHERE];
static uint32_t elsewhere_count;

static bool is_elsewhere(cuuint64_t capture) {
  uint32_t count = GS_LOAD(elsewhere_count);
  for (uint32_t i = 0; i < count && i < CAPTURES_ELSEWHERE; i++)
    if (GS_LOAD(elsewhere[i]) == capture) return true;
  return false;
}

/* What the next captured work of a stream will wait for. */
struct behind {
  cuuint64_t capture;
  const CUgraphNode *nodes;
  const CUgraphEdgeData *edges;
  size_t count;
};

static bool look_behind(CUstream stream, struct behind *behind) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = GS_CALL(cuStreamGetCaptureInfo_v3)(stream, &status, &behind->capture, NULL, &behind->nodes,
                                                       &behind->edges, &behind->count);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* In one number, to tell whether it is still the same. */
static uint64_t mark_of(const struct behind *behind) {
  uint64_t mark = behind->count;
  for (size_t i = 0; i < behind->count; i++) mark = (mark ^ (uintptr_t)behind->nodes[i]) * 0x9e3779b97f4a7c15u;
  return mark;
}

static void stand_behind(CUstream stream, const struct behind *these) {
  GS_CALL(cuStreamUpdateCaptureDependencies_v2)
  (stream, (CUgraphNode *)these->nodes, these->edges, these->count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

/* A wait only adds to what a stream is behind: with each detour there would be more edges to what is long included. If
 * the driver does not do it, these are all that is wrong. */
static void stand_where(CUstream other, CUstream stream) {
  struct behind there;
  if (look_behind(other, &there)) stand_behind(stream, &there);
}

/* A program may take back what its stream is behind. The end of its capture would fail if another were behind it
 * still. */
static void stand_behind_nothing(CUstream stream) { stand_behind(stream, &(struct behind){0}); }

void gs_detour_never(CUstream stream, bool per_thread) {
  struct behind now;
  if (!gs_gate_virtual_card_mask() || !look_behind(gs_stream_name(stream, per_thread), &now)) return;
  GS_STORE(elsewhere[(GS_ADD(elsewhere_count, 1) - 1) % CAPTURES_ELSEWHERE], now.capture);
}

/* The detour of a stream, which is its own: nothing else is ever given to it, and it is in no other capture than its
 * stream, for it comes into one by it only. The stream is locked. */

static void drop_event(CUevent *event) {
  if (*event) GS_CALL(cuEventDestroy_v2)(*event);
  *event = NULL;
}

static void drop_events(struct gs_detour *detour) {
  drop_event(&detour->forth);
  drop_event(&detour->back);
}

void gs_detour_drop(struct gs_detour *detour) {
  drop_events(detour);
  if (detour->stream) GS_CALL(cuStreamDestroy_v2)(detour->stream);
  detour->stream = NULL;
}

static bool has_stream(struct gs_stream *stream, int32_t partition) {
  struct gs_detour *detour = &stream->detour;
  if (detour->stream && detour->partition != partition) gs_detour_drop(detour);
  if (!detour->stream && gs_partition_stream((uint32_t)partition, stream->priority, &detour->stream))
    detour->stream = NULL;
  detour->partition = partition;
  return detour->stream;
}

static bool has_detour(struct gs_stream *stream, int32_t partition) {
  return partition != GS_NO_PARTITION && has_stream(stream, partition) &&
         gs_event_made(&stream->detour.forth, CU_EVENT_DISABLE_TIMING) &&
         gs_event_made(&stream->detour.back, CU_EVENT_DISABLE_TIMING);
}

/* Events that do not belong to the stream's context, because their maker was in another, are made anew the next time. */
static bool go_forth(struct gs_stream *stream) {
  struct gs_detour *detour = &stream->detour;
  struct behind now;
  if (!look_behind(stream->own, &now) || is_elsewhere(now.capture)) return false;
  detour->left = mark_of(&now);
  if (GS_CALL(cuEventRecord)(detour->forth, stream->own) ||
      GS_CALL(cuStreamWaitEvent)(detour->stream, detour->forth, 0)) {
    drop_events(detour);
    return false;
  }
  stand_where(stream->own, detour->stream);
  return true;
}

/* Memory that is allocated in a capture goes there without the stream's lock. What has come meanwhile stays. */
static bool stands_as_left(const struct gs_stream *stream) {
  struct behind now;
  return look_behind(stream->own, &now) && mark_of(&now) == stream->detour.left;
}

static CUresult come_back(struct gs_stream *stream) {
  struct gs_detour *detour = &stream->detour;
  bool as_left = stands_as_left(stream);
  CUresult result = GS_CALL(cuEventRecord)(detour->back, detour->stream);
  if (result == CUDA_SUCCESS) result = GS_CALL(cuStreamWaitEvent)(stream->own, detour->back, 0);
  if (result != CUDA_SUCCESS) return result;
  if (as_left) stand_where(detour->stream, stream->own);
  stand_behind_nothing(detour->stream);
  return CUDA_SUCCESS;
}

/* Which kernels take it. */

/* Of more blocks than every card can put together: whether they fit a partition, a driver may say too late. */
static bool is_large_cluster(const CUlaunchAttribute *attribute) {
  uint32_t size[3];
  if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return false;
  memcpy(size, attribute->value, sizeof size);
  return (uint64_t)size[0] * size[1] * size[2] > MOST_PORTABLE_CLUSTER;
}

static bool is_bound_to_its_stream(const CUlaunchAttribute *attribute) {
  return attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
         attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
         attribute->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
}

static bool may_leave_its_stream(const CUlaunchConfig *config) {
  if (config->numAttrs > MOST_ATTRIBUTES) return false;
  for (unsigned int i = 0; i < config->numAttrs; i++)
    if (is_bound_to_its_stream(&config->attrs[i]) || is_large_cluster(&config->attrs[i])) return false;
  return true;
}

static bool is_cooperative(const struct gs_work *work) {
  if (work->cooperative || !work->config) return work->cooperative;
  for (unsigned int i = 0; i < work->config->numAttrs; i++) {
    const CUlaunchAttribute *one = &work->config->attrs[i];
    int value;
    memcpy(&value, one->value, sizeof value);
    if (one->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value) return true;
  }
  return false;
}

/* Asked before: what the driver refuses when it is captured spoils the capture. */
static bool fits_at_once(const struct gs_work *work, int32_t partition) {
  uint64_t grid = (uint64_t)work->grid[0] * work->grid[1] * work->grid[2];
  uint32_t threads = work->block[0] * work->block[1] * work->block[2];
  int blocks = 0;
  if (GS_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, (CUfunction)work->handle, (int)threads,
                                                           work->shared))
    return false;
  return grid <= (uint64_t)blocks * gs_partition_sms((uint32_t)partition);
}

static bool may_go_to(const struct gs_work *work, int32_t partition) {
  if (partition == GS_NO_PARTITION || (work->config && !may_leave_its_stream(work->config))) return false;
  return !is_cooperative(work) || fits_at_once(work, partition);
}

/* That a kernel may begin before the one in front of it has ended is a permission. Whether it would hold between
 * nodes that came to stand behind each other by a detour is not known, so it is not used: the kernel begins in its
 * turn, which is right for every program. */
CUresult gs_detour_launch(gs_launch_ex *launch, const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
  CUlaunchAttribute kept[MOST_ATTRIBUTES];
  CUlaunchConfig in_turn = *config;
  in_turn.attrs = kept;
  in_turn.numAttrs = 0;
  for (unsigned int i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      kept[in_turn.numAttrs++] = config->attrs[i];
  return launch(&in_turn, function, parameters, extra);
}

/* On the way of launches and captures. */

static struct gs_stream *partitionable_stream(CUstream stream, bool per_thread) {
  struct gs_stream *known = gs_stream_of(stream, per_thread);
  return known && known->context->partitionable && known->kind != GS_LEGACY ? known : NULL;
}

/* Partitions are made while nothing is captured only: they may have to make room, and move streams for it. */
static int32_t virtual_card_partition(bool may_make) {
  uint64_t within = gs_gate_virtual_card_mask();
  if (may_make) gs_partition_of(within);
  return gs_partition_to_keep(within);
}

static void prepare(struct gs_stream *stream) {
  pthread_rwlock_rdlock(&gs_partitions_lock);
  int32_t partition = virtual_card_partition(!GS_LOAD(gs_active_captures));
  pthread_mutex_lock(&stream->lock);
  if (has_detour(stream, partition) && !gs_is_default(stream->own))
    GS_CALL(cuStreamCopyAttributes)(stream->detour.stream, stream->own);
  pthread_mutex_unlock(&stream->lock);
  pthread_rwlock_unlock(&gs_partitions_lock);
}

/* What can be made and copied before the capture need not be while it lasts. Streams that are drawn in come later. */
void gs_detour_prepare(CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_gate_virtual_card_mask()) || gs_stream_capturing(stream, per_thread)) return; /* it will be refused */
  CUstreamCaptureMode before = gs_relax();
  struct gs_stream *origin = partitionable_stream(stream, per_thread);
  if (origin) prepare(origin);
  gs_unrelax(before);
}

/* Locks the stream; whether it is on its detour. */
static bool take_with_detour(struct gs_stream *stream, const struct gs_work *work) {
  pthread_rwlock_rdlock(&gs_partitions_lock);
  int32_t partition = virtual_card_partition(false);
  pthread_mutex_lock(&stream->lock);
  bool away = work->kind == GS_KERNEL && may_go_to(work, partition) && has_detour(stream, partition) && go_forth(stream);
  pthread_rwlock_unlock(&gs_partitions_lock);
  return away;
}

CUstream gs_detour_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_gate_virtual_card_mask())) return stream;
  CUstreamCaptureMode before = gs_relax();
  ticket->stream = partitionable_stream(stream, per_thread);
  bool away = ticket->stream && take_with_detour(ticket->stream, work);
  gs_unrelax(before);
  ticket->captured = away ? GS_ON_DETOUR : GS_ON_OWN_STREAM;
  return away ? ticket->stream->detour.stream : stream;
}

struct gs_stream *gs_captured_stream_acquire(CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_gate_virtual_card_mask())) return NULL;
  CUstreamCaptureMode before = gs_relax();
  struct gs_stream *known = partitionable_stream(stream, per_thread);
  gs_unrelax(before);
  if (known) pthread_mutex_lock(&known->lock);
  return known;
}

/* A kernel is in the graph by now. If its own stream could not be put behind it, that is an error of the launch. */
CUresult gs_detour_end(struct gs_ticket *ticket, CUresult result) {
  CUresult joined = ticket->captured == GS_ON_DETOUR ? come_back(ticket->stream) : CUDA_SUCCESS;
  gs_stream_release(ticket->stream);
  return result == CUDA_SUCCESS ? joined : result;
}
