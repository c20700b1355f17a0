/* Yielding: while a mate that goes first is busy, what this tenant has queued stands still between two kernels.
 *
 * The caller is not held. Before its kernels, a wait for one word of memory is put into the stream; the card passes it
 * at once while the word is 0. So there is always work behind the kernel that runs, and still it gives way as soon as
 * that one is over. A thread of its own keeps the word: it never calls the driver, which may be holding the caller until
 * there is room in a queue that waits for this very word, and takes no lock that such a caller may have.
 *
 * In doubt the word is 0: nothing stands still where nothing is known to be queued, nobody looks, or the driver is about
 * to wait for it. One context of the card yields, the first that can; what a process does in others goes on. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "gate/gate.h"
#include "gate/yield_poll.h"

#define LOOK_EVERY_NS 20000u
#define DOZE_NS 20000000u
#define TRY_AGAIN_NS 100000000u
#define PASS_PART 100u /* whoever has lost patience goes for this part of it */
#define PAGE_BYTES 4096u

static uint32_t *word; /* 0: go on; in a page of its own, which the card reads; NULL: no context has one */
static CUdeviceptr word_on_card;
static CUcontext owner;       /* of the page */
static uint32_t useless;      /* the driver cannot wait for words */
static uint64_t try_again_ns; /* it could not last time, for a reason that may pass */
static uint32_t leaving, living, dozing, bell;
static uint32_t passing;   /* so many ask that nothing stands still */
static uint32_t impatient; /* it has stood still for too long */
static struct gs_yield_poll poll; /* the keeper's, while it lives */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* The word. */

static uint32_t *make_page(void) {
  void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  madvise(page, PAGE_BYTES, MADV_DONTFORK); /* a copy for a child would part us from what the card reads */
  return page;
}

static void refused(CUresult result) {
  if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_FOUND)
    GS_STORE(useless, 1);
  else
    GS_STORE(try_again_ns, gs_now_ns() + TRY_AGAIN_NS);
}

static bool is_refused(void) {
  uint64_t again_ns = GS_PEEK(try_again_ns);
  return again_ns && gs_now_ns() < again_ns;
}

static CUresult register_page(uint32_t *page) {
  CUstreamCaptureMode before = gs_relax(); /* another thread may be capturing */
  CUresult result = GS_CALL(cuMemHostRegister_v2)(page, PAGE_BYTES, CU_MEMHOSTREGISTER_PORTABLE_DEVICEMAP);
  bool registered = !result;
  if (registered) result = GS_CALL(cuMemHostGetDevicePointer_v2)(&word_on_card, page, 0);
  if (registered && result) GS_CALL(cuMemHostUnregister)(page);
  gs_unrelax(before);
  return result;
}

/* A page for each context: registered memory goes with its context, while another's streams might still read it. The
 * page of one that went is left behind, for nobody tells when the driver is done with it. */
static bool take_page(CUcontext context) {
  CUcontext current = NULL;
  if (GS_CALL(cuCtxGetCurrent)(&current) || current != context) return false; /* it would be registered there */
  uint32_t *page = make_page();
  if (!page) return false;
  CUresult result = register_page(page);
  if (result) {
    refused(result);
    munmap(page, PAGE_BYTES);
    return false;
  }
  GS_STORE(word, page);
  GS_STORE(owner, context);
  return true;
}

static bool must_stand(void) {
  return !GS_LOAD(passing) && !GS_LOAD(impatient) && GS_LOAD(gs_region.process->in_flight) && gs_gate_must_yield();
}

/* Whoever lets things pass says so before it clears the word: if that was while we looked, we clear it here. */
static void refresh(void) {
  uint32_t *at = GS_LOAD(word);
  if (!at) return;
  bool stands = must_stand();
  __atomic_store_n(at, stands, __ATOMIC_SEQ_CST);
  if (stands && (__atomic_load_n(&passing, __ATOMIC_SEQ_CST) || __atomic_load_n(&word, __ATOMIC_SEQ_CST) != at))
    GS_STORE(*at, 0);
}

static void clear(uint32_t *at) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (at) GS_STORE(*at, 0);
}

/* The thread that keeps it. */

/* Whoever goes first may hang, or wait for this very work, by an event, on another card, through the program. */
static void mind_patience(void) {
  static uint64_t since_ns; /* it stands still, or 0 */
  uint32_t *at = GS_LOAD(word);
  uint64_t now_ns = gs_now_ns(), patience_ns = gs_gate_yield_max_ns();
  bool stands = at && GS_LOAD(*at);
  if (!GS_PEEK(impatient)) {
    if (!stands || !since_ns) since_ns = stands ? now_ns : 0;
    if (stands && now_ns - since_ns > patience_ns) GS_STORE(impatient, 1);
  } else if (now_ns - since_ns > patience_ns + patience_ns / PASS_PART) {
    since_ns = 0;
    GS_STORE(impatient, 0);
  }
}

static void rest(void) {
  uint32_t seen = GS_LOAD(bell);
  if (GS_LOAD(gs_region.process->in_flight) && gs_gate_may_yield()) {
    gs_yield_poll_wait(&poll, LOOK_EVERY_NS);
    return;
  }
  refresh(); /* what was queued may have gone since we looked: nothing is left standing while we doze */
  GS_STORE(dozing, 1);
  if (!GS_LOAD(leaving)) gs_futex_wait(&bell, seen, DOZE_NS);
  GS_STORE(dozing, 0);
}

static void *keep(void *unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, 1000ul);
  while (!GS_LOAD(leaving)) {
    mind_patience();
    refresh();
    rest();
  }
  GS_STORE(living, 0);
  return NULL;
}

static bool start_keeper(void) {
  pthread_t keeper;
  gs_yield_poll_start(&poll);
  GS_STORE(living, 1);
  if (gs_start_thread(&keeper, keep)) return true;
  GS_STORE(living, 0);
  return false;
}

/* Always counted, so that a keeper that is about to doze notices; it must be woken only if it does already. */
static void wake_keeper(void) {
  GS_ADD(bell, 1);
  if (GS_LIKELY(!GS_LOAD(dozing))) return;
  refresh(); /* it will be late */
  gs_futex_wake(&bell, 1);
}

/* Standing still. */

static bool make_ready(CUcontext context) {
  if (GS_LOAD(leaving)) return false;
  pthread_mutex_lock(&making);
  bool ready = (GS_LOAD(owner) ? GS_LOAD(owner) == context : take_page(context)) && (GS_LOAD(living) || start_keeper());
  pthread_mutex_unlock(&making);
  if (ready) refresh(); /* the keeper may not have looked yet */
  return ready;
}

static bool is_ready(const struct gs_context *context) {
  if (GS_LIKELY(GS_LOAD(owner) == context->handle && GS_LOAD(living))) return true;
  CUcontext other = GS_LOAD(owner);
  return context->on_card && (!other || other == context->handle) && make_ready(context->handle);
}

/* Called with the stream locked, before work goes to it, which counts as queued already. */
void gs_yield_before(struct gs_stream *stream, const struct gs_kernel_info *info, uint64_t cost_ns) {
  if (GS_LIKELY(!gs_gate_may_yield()) || GS_PEEK(useless) || GS_PEEK(gs_active_captures) || info->collective) return;
  stream->since_yield_point_ns += GS_PEEK(info->guessed) ? gs_gate_yield_point_ns() : cost_ns; /* it may be a long one */
  if (stream->since_yield_point_ns < gs_gate_yield_point_ns()) return;
  stream->since_yield_point_ns = 0;
  if (is_refused() || !is_ready(stream->context)) return;
  wake_keeper();
  CUresult result = GS_CALL(cuStreamWaitValue32_v2)(stream->current, word_on_card, 0, CU_STREAM_WAIT_VALUE_EQ);
  if (GS_UNLIKELY(result)) refused(result);
}

/* Going on: the driver may be about to wait for what stands still. */

void gs_yield_suspend(void) {
  GS_ADD(passing, 1);
  clear(GS_LOAD(word));
}

void gs_yield_resume(void) { GS_SUB(passing, 1); }

void gs_yield_stop(void) {
  gs_yield_suspend(); /* for good */
  GS_STORE(leaving, 1);
  GS_ADD(bell, 1);
  gs_futex_wake(&bell, 1);
}

void gs_yield_context_ending(CUcontext context) {
  if (GS_LOAD(owner) != context) return;
  uint32_t *page = GS_LOAD(word);
  GS_STORE(word, NULL);
  GS_STORE(owner, NULL);
  clear(page);
}

void gs_yield_forget(void) {
  word = NULL; /* not ours after a fork */
  owner = NULL;
  try_again_ns = 0;
  useless = leaving = living = dozing = bell = passing = impatient = 0;
  pthread_mutex_init(&making, NULL);
}
