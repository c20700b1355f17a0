/* SM partitions: green contexts over merged groups of the card, made at first need and kept by mask. A kernel of the
 * primary context that is launched on a green context's stream runs on exactly that partition's SMs. */
#include "gate/gate.h"

#define MOST_GROUPS 64u
#define DEFAULT_SMS_PER_GROUP 8u

struct partition {
  uint64_t mask; /* 0: free */
  CUgreenCtx context;
  uint64_t used; /* when, by a count: the one unused for longest makes room */
  uint32_t sms;
  uint32_t kept; /* 1: graphs run on it, which nobody can move, so it never makes room */
};

static struct partition partitions[GS_PARTITIONS];
static CUdevResource groups[MOST_GROUPS];
static uint32_t group_count;
static CUdevice split_device;
static uint64_t clock_count;
static uint64_t refused_mask; /* the last that could not be made: not tried again until another is wanted */
pthread_rwlock_t gs_partitions_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER; /* a green context promises nothing to threads at once */

static bool split(void) {
  if (group_count) return true;
  CUdevResource whole, rest;
  uint32_t sms = gs_region.decisions->sms_per_group, count = MOST_GROUPS;
  if (GS_CALL(cuCtxGetDevice)(&split_device)) return false;
  if (GS_CALL(cuDeviceGetDevResource)(split_device, &whole, CU_DEV_RESOURCE_TYPE_SM)) return false;
  if (GS_CALL(cuDevSmResourceSplitByCount)(groups, &count, &whole, &rest, 0, sms ? sms : DEFAULT_SMS_PER_GROUP))
    return false;
  group_count = count;
  return count > 0;
}

/* The groups of the mask that the card has. */
static uint32_t chosen(uint64_t mask, CUdevResource *into) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < group_count; i++)
    if (mask >> i & 1) into[count++] = groups[i];
  return count;
}

static bool make(struct partition *partition, uint64_t mask) {
  CUdevResource merged[MOST_GROUPS];
  CUdevResourceDesc description;
  if (!split()) return false;
  uint32_t count = chosen(mask, merged);
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
      GS_STORE(partitions[i].used, GS_ADD(clock_count, 1));
      return i;
    }
  return -1;
}

/* GS_PARTITIONS: none can make room. */
static uint32_t longest_unused(void) {
  uint32_t best = GS_PARTITIONS;
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) {
    if (!partitions[i].mask) return i;
    if (partitions[i].kept) continue;
    if (best == GS_PARTITIONS || partitions[i].used < partitions[best].used) best = i;
  }
  return best;
}

static void unmake(uint32_t index) {
  if (!partitions[index].mask) return;
  gs_streams_evict(index);
  GS_CALL(cuGreenCtxDestroy)(partitions[index].context);
  partitions[index] = (struct partition){0};
}

static bool make_at(uint32_t index, uint64_t mask) {
  if (index == GS_PARTITIONS) return false;
  CUstreamCaptureMode before = gs_relax();
  unmake(index);
  bool made = make(&partitions[index], mask);
  gs_unrelax(before);
  return made;
}

static void make_room_and_make(uint64_t mask) {
  if (find(mask) >= 0) return; /* another thread did */
  if (make_at(longest_unused(), mask)) {
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
  pthread_rwlock_unlock(&gs_partitions_lock);
  pthread_rwlock_wrlock(&gs_partitions_lock);
  make_room_and_make(mask);
  pthread_rwlock_unlock(&gs_partitions_lock);
  pthread_rwlock_rdlock(&gs_partitions_lock);
  return find(mask); /* unless others made room in between: then unrestricted, until the next launch */
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
  pthread_mutex_lock(&creating);
  CUresult result = GS_CALL(cuGreenCtxStreamCreate)(stream, context, CU_STREAM_NON_BLOCKING, priority);
  pthread_mutex_unlock(&creating);
  gs_unrelax(before);
  return result;
}

void gs_partitions_end(void) {
  CUstreamCaptureMode before = gs_relax();
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) unmake(i);
  gs_unrelax(before);
}

/* The context they belong to is gone, or the process is a fork. */
void gs_partitions_forget(void) {
  for (uint32_t i = 0; i < GS_PARTITIONS; i++) partitions[i] = (struct partition){0};
  group_count = 0;
  refused_mask = 0;
  pthread_mutex_init(&creating, NULL);
}
