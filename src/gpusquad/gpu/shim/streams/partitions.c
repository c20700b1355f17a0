/* SM partitions: green contexts over merged SM groups of the card, created at first use and kept by mask. A kernel of
 * the primary context that is launched on a green context's stream runs on exactly the SMs of that partition. */
#include "streams/streams.h"

#define MAX_GROUPS 64u
#define DEFAULT_SMS_PER_GROUP 8u

struct partition {
  uint64_t mask; /* 0: free */
  CUgreenCtx context;
  uint64_t used; /* value of use_count at the last use: the least recently used partition is evicted */
  uint32_t sms;
  uint32_t kept; /* 1: graphs run on it and cannot be moved, so it is never evicted */
};

static struct partition partitions[GS_PARTITIONS];
static CUdevResource groups[MAX_GROUPS];
static uint32_t group_count;
static CUdevice split_device;
static uint64_t use_count;
static uint64_t refused_mask; /* the last that could not be created: not tried again before another mask is */
pthread_rwlock_t gs_partitions_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t green_context_lock = PTHREAD_MUTEX_INITIALIZER; /* green contexts are not thread-safe */

static bool split(void) {
  if (group_count) return true;
  CUdevResource whole, rest;
  uint32_t sms = gs_region.decisions->sms_per_group, count = MAX_GROUPS;
  if (GS_CALL(cuCtxGetDevice)(&split_device)) return false;
  if (GS_CALL(cuDeviceGetDevResource)(split_device, &whole, CU_DEV_RESOURCE_TYPE_SM)) return false;
  if (GS_CALL(cuDevSmResourceSplitByCount)(groups, &count, &whole, &rest, 0, sms ? sms : DEFAULT_SMS_PER_GROUP))
    return false;
  group_count = count;
  return count > 0;
}

/* Selects the groups of the mask that the card has. */
static uint32_t select_groups(uint64_t mask, CUdevResource *into) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < group_count; i++)
    if (mask >> i & 1) into[count++] = groups[i];
  return count;
}

static bool create(struct partition *partition, uint64_t mask) {
  CUdevResource merged[MAX_GROUPS];
  CUdevResourceDesc description;
  if (!split()) return false;
  uint32_t count = select_groups(mask, merged);
  if (!count || GS_CALL(cuDevResourceGenerateDesc)(&description, merged, count)) return false;
  if (GS_CALL(cuGreenCtxCreate)(&partition->context, description, split_device, CU_GREEN_CTX_DEFAULT_STREAM))
    return false;
  partition->mask = mask;
  partition->sms = 0;
  for (uint32_t i = 0; i < count; i++) partition->sms += merged[i].sm.smCount;
  return true;
}

static int32_t find(uint64_t mask) {
  for (int32_t i = 0; i < GS_PARTITIONS; i++)
    if (partitions[i].mask == mask) {
      GS_STORE(partitions[i].used, GS_ADD(use_count, 1));
      return i;
    }
  return -1;
}

/* GS_PARTITIONS: none can be evicted. */
static uint32_t least_recently_used(void) {
  uint32_t best = GS_PARTITIONS;
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) {
    if (!partitions[i].mask) return i;
    if (partitions[i].kept) continue;
    if (best == GS_PARTITIONS || partitions[i].used < partitions[best].used) best = i;
  }
  return best;
}

static void destroy(uint32_t index) {
  if (!partitions[index].mask) return;
  gs_streams_evict(index);
  GS_CALL(cuGreenCtxDestroy)(partitions[index].context);
  partitions[index] = (struct partition){0};
}

static bool create_at(uint32_t index, uint64_t mask) {
  if (index == GS_PARTITIONS) return false;
  CUstreamCaptureMode before = gs_relax();
  destroy(index);
  bool made = create(&partitions[index], mask);
  gs_unrelax(before);
  return made;
}

static void evict_and_create(uint64_t mask) {
  if (find(mask) >= 0) return; /* another thread did */
  if (create_at(least_recently_used(), mask)) {
    find(mask);
    return;
  }
  if (!refused_mask) gs_log("no partition of SM groups %#llx: running unrestricted", (unsigned long long)mask);
  refused_mask = mask;
}

int32_t gs_partition_of(uint64_t mask) {
  if (!mask) return -1;
  int32_t index = find(mask);
  if (index >= 0 || GS_PEEK(refused_mask) == mask) return index;
  gs_rw_unlock(&gs_partitions_lock);
  gs_write_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  evict_and_create(mask);
  gs_rw_unlock(&gs_partitions_lock);
  gs_read_lock(&gs_partitions_lock, GS_RANK_PARTITIONS);
  return find(mask); /* if another thread has evicted it in between, this launch is unrestricted */
}

int32_t gs_partition_to_keep(uint64_t mask) {
  int32_t index = mask ? find(mask) : -1;
  if (index >= 0) GS_STORE(partitions[index].kept, 1);
  return index;
}

uint32_t gs_partition_sms(uint32_t partition) { return partitions[partition].sms; }

uint64_t gs_partition_mask(uint32_t partition) { return GS_PEEK(partitions[partition].mask); }

CUresult gs_partition_stream(uint32_t partition, int priority, CUstream *stream) {
  CUgreenCtx context = partitions[partition].context;
  CUstreamCaptureMode before = gs_relax();
  gs_lock(&green_context_lock, GS_RANK_LEAF);
  CUresult result = GS_CALL(cuGreenCtxStreamCreate)(stream, context, CU_STREAM_NON_BLOCKING, priority);
  gs_unlock(&green_context_lock);
  gs_unrelax(before);
  return result;
}

void gs_partitions_end(void) {
  CUstreamCaptureMode before = gs_relax();
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) destroy(i);
  gs_unrelax(before);
}

/* Their context has ended, or the process is a forked child. */
void gs_partitions_forget(void) {
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) partitions[i] = (struct partition){0};
  group_count = 0;
  refused_mask = 0;
  pthread_mutex_init(&green_context_lock, NULL);
}
