/* Yielding: while a client on the yield list is busy, this client's queued work pauses between two kernels.
 *
 * The calling thread is not held. Before its kernels, the shim queues a wait for one word of memory; the card passes it
 * at once while the word is 0. So there is always work behind the running kernel, and the client still pauses as soon
 * as that kernel ends. The yield thread sets the word. It never calls the driver, because the driver may be blocking
 * the caller until a queue has room that waits for this very word. For the same reason it takes no lock that such a
 * caller may hold.
 *
 * In doubt the word is 0: no work pauses if none is known to be queued, if no thread watches, or if the driver is about
 * to wait for it. Only one context of the process yields, the first that can. Work in its other contexts continues. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "gate/gate.h"
#include "gate/yield_poll.h"

#define POLL_INTERVAL_NS 20000u
#define IDLE_SLEEP_NS 20000000u
#define RETRY_AFTER_NS 100000000u
#define PASS_PART 100u /* after the longest pause, work runs for this part of that time */
#define PAGE_BYTES 4096u

static uint32_t *word; /* 1: pause. In a page of its own, which the card reads; NULL: no context has one */
static CUdeviceptr word_on_card;
static CUcontext owner;         /* of the page */
static uint32_t unsupported;    /* the driver cannot wait for words */
static uint64_t retry_after_ns; /* the last attempt failed for a reason that may pass */
static uint32_t stopping, thread_alive, thread_asleep;
static uint32_t wake_count; /* futex word of the yield thread */
static uint32_t suspended;  /* calls of gs_yield_suspend without gs_yield_resume */
static uint32_t timed_out;  /* the work has paused for the longest time allowed */
static struct gs_yield_poll poll; /* used by the yield thread */
static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;

/* The word. */

static uint32_t *make_page(void) {
  void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  madvise(page, PAGE_BYTES, MADV_DONTFORK); /* copy-on-write would separate us from the page that the card reads */
  return page;
}

static void note_refusal(CUresult result) {
  if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_FOUND)
    GS_STORE(unsupported, 1);
  else
    GS_STORE(retry_after_ns, gs_now_ns() + RETRY_AFTER_NS);
}

static bool was_refused_recently(void) {
  uint64_t again_ns = GS_PEEK(retry_after_ns);
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

/* Each context gets its own page: registered memory ends with its context, while streams of another might still read
 * it. The page of an ended context is leaked, because the driver does not report when it stops reading it. */
static bool take_page(CUcontext context) {
  CUcontext current = NULL;
  if (GS_CALL(cuCtxGetCurrent)(&current) || current != context) return false; /* it would be registered there */
  uint32_t *page = make_page();
  if (!page) return false;
  CUresult result = register_page(page);
  if (result) {
    note_refusal(result);
    munmap(page, PAGE_BYTES);
    return false;
  }
  GS_STORE(word, page);
  GS_STORE(owner, context);
  return true;
}

static bool must_pause(void) {
  return !GS_LOAD(suspended) && !GS_LOAD(timed_out) && GS_LOAD(gs_region.process->in_flight) && gs_grant_must_yield();
}

/* gs_yield_suspend counts before it clears the word. If it did so while this function decided, the word is cleared
 * here. */
static void refresh(void) {
  uint32_t *at = GS_LOAD(word);
  if (!at) return;
  bool pauses = must_pause();
  __atomic_store_n(at, pauses, __ATOMIC_SEQ_CST);
  if (pauses && (__atomic_load_n(&suspended, __ATOMIC_SEQ_CST) || __atomic_load_n(&word, __ATOMIC_SEQ_CST) != at))
    GS_STORE(*at, 0);
}

static void clear(uint32_t *at) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (at) GS_STORE(*at, 0);
}

/* The yield thread. */

/* The client that runs first may hang, or wait for this very work: through an event, on another card, in the program.
 * So no pause is longer than the grant allows. */
static void limit_pause(void) {
  static uint64_t since_ns; /* start of the pause; 0: none */
  uint32_t *at = GS_LOAD(word);
  uint64_t now_ns = gs_now_ns(), max_ns = gs_grant_yield_max_ns();
  bool pauses = at && GS_LOAD(*at);
  if (!GS_PEEK(timed_out)) {
    if (!pauses || !since_ns) since_ns = pauses ? now_ns : 0;
    if (pauses && now_ns - since_ns > max_ns) GS_STORE(timed_out, 1);
  } else if (now_ns - since_ns > max_ns + max_ns / PASS_PART) {
    since_ns = 0;
    GS_STORE(timed_out, 0);
  }
}

static void wait_for_change(void) {
  uint32_t seen = GS_LOAD(wake_count);
  if (GS_LOAD(gs_region.process->in_flight) && gs_grant_may_yield()) {
    gs_yield_poll_wait(&poll, POLL_INTERVAL_NS);
    return;
  }
  refresh(); /* the queue may have drained since the last check: the word must be 0 while this thread sleeps */
  GS_STORE(thread_asleep, 1);
  if (!GS_LOAD(stopping)) gs_futex_wait(&wake_count, seen, IDLE_SLEEP_NS);
  GS_STORE(thread_asleep, 0);
}

static void *run_yield_thread(void *unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, 1000ul);
  while (!GS_LOAD(stopping)) {
    limit_pause();
    refresh();
    wait_for_change();
  }
  GS_STORE(thread_alive, 0);
  return NULL;
}

static bool start_yield_thread(void) {
  pthread_t thread;
  gs_yield_poll_start(&poll);
  GS_STORE(thread_alive, 1);
  if (gs_start_thread(&thread, run_yield_thread)) return true;
  GS_STORE(thread_alive, 0);
  return false;
}

/* Always counts, so that a thread that is about to sleep notices. Only a sleeping thread has to be woken. */
static void wake_yield_thread(void) {
  GS_ADD(wake_count, 1);
  if (GS_LIKELY(!GS_LOAD(thread_asleep))) return;
  refresh(); /* the thread will be late */
  gs_futex_wake(&wake_count, 1);
}

/* Pausing. */

static bool make_ready(CUcontext context) {
  if (GS_LOAD(stopping)) return false;
  gs_lock(&page_lock, GS_RANK_LEAF);
  bool ready = (GS_LOAD(owner) ? GS_LOAD(owner) == context : take_page(context)) &&
               (GS_LOAD(thread_alive) || start_yield_thread());
  gs_unlock(&page_lock);
  if (ready) refresh(); /* the thread may not have run yet */
  return ready;
}

static bool is_ready(const struct gs_context *context) {
  if (GS_LIKELY(GS_LOAD(owner) == context->handle && GS_LOAD(thread_alive))) return true;
  CUcontext other = GS_LOAD(owner);
  return context->on_card && (!other || other == context->handle) && make_ready(context->handle);
}

/* Called before work goes to the stream, with the stream locked. The work counts as queued already. */
void gs_yield_before(struct gs_stream *stream, const struct gs_kernel_info *info, uint64_t cost_ns) {
  if (GS_LIKELY(!gs_grant_may_yield()) || GS_PEEK(unsupported) || GS_PEEK(gs_active_captures) || info->collective)
    return;
  GS_ASSERT_HELD(&stream->lock);
  /* a kernel that was never timed may be long */
  stream->since_yield_point_ns += GS_PEEK(info->guessed) ? gs_grant_yield_point_ns() : cost_ns;
  if (stream->since_yield_point_ns < gs_grant_yield_point_ns()) return;
  stream->since_yield_point_ns = 0;
  if (was_refused_recently() || !is_ready(stream->context)) return;
  wake_yield_thread();
  CUresult result = GS_CALL(cuStreamWaitValue32_v2)(stream->current, word_on_card, 0, CU_STREAM_WAIT_VALUE_EQ);
  if (GS_UNLIKELY(result)) note_refusal(result);
}

/* Resuming: the driver may be about to wait for paused work. */

void gs_yield_suspend(void) {
  GS_ADD(suspended, 1);
  clear(GS_LOAD(word));
}

void gs_yield_resume(void) { GS_SUB(suspended, 1); }

void gs_yield_stop(void) {
  gs_yield_suspend(); /* never resumed */
  GS_STORE(stopping, 1);
  GS_ADD(wake_count, 1);
  gs_futex_wake(&wake_count, 1);
}

void gs_yield_context_ending(CUcontext context) {
  if (GS_LOAD(owner) != context) return;
  uint32_t *page = GS_LOAD(word);
  GS_STORE(word, NULL);
  GS_STORE(owner, NULL);
  clear(page);
}

void gs_yield_forget(void) {
  word = NULL; /* after a fork it is the parent's */
  owner = NULL;
  retry_after_ns = 0;
  unsupported = stopping = thread_alive = thread_asleep = wake_count = suspended = timed_out = 0;
  pthread_mutex_init(&page_lock, NULL);
}
