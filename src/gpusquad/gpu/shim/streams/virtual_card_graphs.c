/* Graphs on a virtual card. A captured kernel keeps the SMs of the stream that it was captured on, wherever the graph
 * is launched, and cannot be moved later. The SMs of a virtual card never change while its client lives. So there a
 * kernel is captured by a detour: on a stream of the virtual card's partition, which one event adds to the capture and
 * another joins to the caller's own stream. Events leave nothing in a graph, and the dependencies of both streams are
 * set exactly, so the graph has the same nodes and edges as without the detour.
 *
 * Copies and memsets stay on the caller's own stream, because a share of SMs does not cover them. (A graph with them
 * therefore has nodes of two contexts, and kernels can only launch graphs of one.) Also kept there, and so on the whole
 * card, is what might behave differently on a partition:
 *
 * - kernels that trigger an event before they end, or that can be updated from the device;
 * - grids and clusters that must be resident at once and may not fit;
 * - captures into a graph of the program's own, because all kernels in the body of a conditional node must belong to
 *   one context;
 * - kernels for which the detour could not be set up.
 *
 * A launch that the driver refuses is not tried again, because the refusal usually invalidates the capture.
 *
 * While a kernel is on its detour, no other work may be captured on its stream: it would be lost when the stream's
 * dependencies are set. So everything captured there takes the stream's lock.
 *
 * The detour has the attributes of the caller's stream (L2 windows, memory domains) if the capture began on that
 * stream, and not if the stream joined later. Kernels that a program adds to a graph as nodes are not intercepted. */
#include <string.h>

#include "gate/grant.h"
#include "streams/stream_table.h"

#define MAX_ATTRIBUTES 32u
#define MAX_PORTABLE_CLUSTER 8u
#define MAX_EXCLUDED 256u

/* Captures without detours. The driver never reuses their numbers, so old ones may stay in the list. */
static cuuint64_t excluded_captures[MAX_EXCLUDED];
static uint32_t excluded_count;

static bool is_excluded(cuuint64_t capture) {
  uint32_t count = GS_LOAD(excluded_count);
  for (uint32_t i = 0; i < count && i < MAX_EXCLUDED; i++)
    if (GS_LOAD(excluded_captures[i]) == capture) return true;
  return false;
}

/* What the next captured work of a stream depends on. */
struct dependencies {
  cuuint64_t capture;
  const CUgraphNode *nodes;
  const CUgraphEdgeData *edges;
  size_t count;
};

static bool read_dependencies(CUstream stream, struct dependencies *found) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = GS_CALL(cuStreamGetCaptureInfo_v3)(stream, &status, &found->capture, NULL, &found->nodes,
                                                       &found->edges, &found->count);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* A hash, to find out whether the dependencies have changed. */
static uint64_t hash_of(const struct dependencies *these) {
  uint64_t hash = these->count;
  for (size_t i = 0; i < these->count; i++) hash = (hash ^ (uintptr_t)these->nodes[i]) * 0x9e3779b97f4a7c15u;
  return hash;
}

static void set_dependencies(CUstream stream, const struct dependencies *these) {
  GS_CALL(cuStreamUpdateCaptureDependencies_v2)
  (stream, (CUgraphNode *)these->nodes, these->edges, these->count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

/* A wait only adds dependencies, so each detour would add redundant edges. If the driver refuses, those edges are the
 * only effect. */
static void copy_dependencies(CUstream other, CUstream stream) {
  struct dependencies there;
  if (read_dependencies(other, &there)) set_dependencies(stream, &there);
}

/* A program may remove dependencies of its stream. The end of its capture would fail if the detour still had them. */
static void clear_dependencies(CUstream stream) { set_dependencies(stream, &(struct dependencies){0}); }

void gs_detour_never(CUstream stream, bool per_thread) {
  struct dependencies now;
  if (!gs_grant_virtual_card_mask() || !read_dependencies(gs_stream_name(stream, per_thread), &now)) return;
  GS_STORE(excluded_captures[(GS_ADD(excluded_count, 1) - 1) % MAX_EXCLUDED], now.capture);
}

/* The detour of a stream. Only kernels of that stream use it, so it is never in another capture than its stream. The
 * stream is locked. */

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

/* Events that were created in another context than the stream's are destroyed here and created again next time. */
static bool enter_detour(struct gs_stream *stream) {
  struct gs_detour *detour = &stream->detour;
  struct dependencies now;
  if (!read_dependencies(stream->own, &now) || is_excluded(now.capture)) return false;
  detour->left = hash_of(&now);
  if (GS_CALL(cuEventRecord)(detour->forth, stream->own) ||
      GS_CALL(cuStreamWaitEvent)(detour->stream, detour->forth, 0)) {
    drop_events(detour);
    return false;
  }
  copy_dependencies(stream->own, detour->stream);
  return true;
}

/* Allocations are captured without the stream's lock. The dependencies they have added in between must stay. */
static bool is_unchanged(const struct gs_stream *stream) {
  struct dependencies now;
  return read_dependencies(stream->own, &now) && hash_of(&now) == stream->detour.left;
}

static CUresult leave_detour(struct gs_stream *stream) {
  struct gs_detour *detour = &stream->detour;
  bool unchanged = is_unchanged(stream);
  CUresult result = GS_CALL(cuEventRecord)(detour->back, detour->stream);
  if (result == CUDA_SUCCESS) result = GS_CALL(cuStreamWaitEvent)(stream->own, detour->back, 0);
  if (result != CUDA_SUCCESS) return result;
  if (unchanged) copy_dependencies(detour->stream, stream->own);
  clear_dependencies(detour->stream);
  return CUDA_SUCCESS;
}

/* Which kernels take the detour. */

/* A cluster of more blocks than every card supports: the driver may report too late that it does not fit a
 * partition. */
static bool is_large_cluster(const CUlaunchAttribute *attribute) {
  uint32_t size[3];
  if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return false;
  memcpy(size, attribute->value, sizeof size);
  return (uint64_t)size[0] * size[1] * size[2] > MAX_PORTABLE_CLUSTER;
}

static bool is_bound_to_its_stream(const CUlaunchAttribute *attribute) {
  return attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
         attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
         attribute->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
}

static bool may_leave_its_stream(const CUlaunchConfig *config) {
  if (config->numAttrs > MAX_ATTRIBUTES) return false;
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

/* Checked first, because a launch that the driver refuses invalidates the capture. */
static bool fits_partition(const struct gs_work *work, int32_t partition) {
  uint64_t grid = (uint64_t)work->grid[0] * work->grid[1] * work->grid[2];
  uint32_t threads = work->block[0] * work->block[1] * work->block[2];
  int blocks = 0;
  if (GS_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, (CUfunction)work->handle, (int)threads,
                                                           work->shared))
    return false;
  return grid <= (uint64_t)blocks * gs_partition_sms((uint32_t)partition);
}

static bool may_take_detour(const struct gs_work *work, int32_t partition) {
  if (partition == GS_NO_PARTITION || (work->config && !may_leave_its_stream(work->config))) return false;
  return !is_cooperative(work) || fits_partition(work, partition);
}

/* Programmatic serialization permits a kernel to start before its predecessor ends. Whether that is valid between nodes
 * captured by a detour is not known, so the attribute is dropped: the kernel starts after its predecessor, which is
 * correct for every program. */
CUresult gs_detour_launch(gs_launch_ex *launch, const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
  CUlaunchAttribute kept[MAX_ATTRIBUTES];
  CUlaunchConfig serial = *config;
  serial.attrs = kept;
  serial.numAttrs = 0;
  for (unsigned int i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      kept[serial.numAttrs++] = config->attrs[i];
  return launch(&serial, function, parameters, extra);
}

/* Called by launches and captures. */

static struct gs_stream *partitionable_stream(CUstream stream, bool per_thread) {
  struct gs_stream *known = gs_stream_of(stream, per_thread);
  return known && known->context->partitionable && known->kind != GS_LEGACY ? known : NULL;
}

/* Partitions are created only while nothing is captured: one may have to be evicted, which moves streams. */
static int32_t virtual_card_partition(bool may_make) {
  uint64_t mask = gs_grant_virtual_card_mask();
  if (may_make) gs_partition_of(mask);
  return gs_partition_to_keep(mask);
}

static void prepare(struct gs_stream *stream) {
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  int32_t partition = virtual_card_partition(!GS_LOAD(gs_active_captures));
  gs_stream_lock(stream);
  if (has_detour(stream, partition) && !gs_is_default(stream->own))
    GS_CALL(cuStreamCopyAttributes)(stream->detour.stream, stream->own);
  gs_stream_release(stream);
  gs_rw_unlock(&gs_partitions_lock);
}

/* Creates and copies before the capture what it will need. Streams that join later are prepared at their first
 * kernel. */
void gs_detour_prepare(CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_grant_virtual_card_mask())) return;
  if (gs_stream_capturing(stream, per_thread)) return; /* the driver will refuse it */
  CUstreamCaptureMode before = gs_relax();
  struct gs_stream *origin = partitionable_stream(stream, per_thread);
  if (origin) prepare(origin);
  gs_unrelax(before);
}

/* Locks the stream. True: the kernel goes to the detour. */
static bool lock_with_detour(struct gs_stream *stream, const struct gs_work *work) {
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  int32_t partition = virtual_card_partition(false);
  gs_stream_lock(stream);
  bool on_detour = work->kind == GS_KERNEL && may_take_detour(work, partition) && has_detour(stream, partition) &&
                   enter_detour(stream);
  gs_rw_unlock(&gs_partitions_lock);
  return on_detour;
}

CUstream gs_detour_begin(struct gs_ticket *ticket, const struct gs_work *work, CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_grant_virtual_card_mask())) return stream;
  CUstreamCaptureMode before = gs_relax();
  ticket->stream = partitionable_stream(stream, per_thread);
  bool on_detour = ticket->stream && lock_with_detour(ticket->stream, work);
  gs_unrelax(before);
  ticket->captured = on_detour ? GS_ON_DETOUR : GS_ON_OWN_STREAM;
  return on_detour ? ticket->stream->detour.stream : stream;
}

struct gs_stream *gs_captured_stream_acquire(CUstream stream, bool per_thread) {
  if (GS_LIKELY(!gs_grant_virtual_card_mask())) return NULL;
  CUstreamCaptureMode before = gs_relax();
  struct gs_stream *known = partitionable_stream(stream, per_thread);
  gs_unrelax(before);
  if (known) gs_stream_lock(known);
  return known;
}

/* The kernel is in the graph by now. If its own stream could not be joined to it, the launch has failed. */
CUresult gs_detour_end(struct gs_ticket *ticket, CUresult result) {
  CUresult joined = ticket->captured == GS_ON_DETOUR ? leave_detour(ticket->stream) : CUDA_SUCCESS;
  gs_stream_release(ticket->stream);
  return result == CUDA_SUCCESS ? joined : result;
}
