/* Yielding: while a mate that goes first is busy, what this tenant has queued stands still between two kernels.
 *
 * The caller is not held. Before its kernels, a wait for one word of memory is put into the stream; the card passes it
 * at once while the word is 0. So there is always work behind the kernel that runs, and still it gives way as soon as
 * that one is over. A thread of its own keeps the word: it never calls the driver, which may be holding the caller until
 * there is room in a queue that waits for this very word. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "gate.h"

#define LOOK_EVERY_NS 20000u
#define DOZE_NS 20000000u
#define PAGE_BYTES 4096u

static uint32_t *word; /* 0: go on; in a page of its own, which the card reads */
static CUdeviceptr word_on_card;
static CUcontext registered_in;
static uint32_t useless; /* the driver cannot wait for words */
static uint32_t leaving, living, dozing, bell;
static uint32_t passing; /* a context is going: nothing stands still until more is launched */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* The word. */

static bool make_page(void) {
  void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  madvise(page, PAGE_BYTES, MADV_DONTFORK); /* a copy for a child would part us from what the card reads */
  word = page;
  return true;
}

static bool register_page(CUcontext context) {
  CUresult result = GS_CALL(cuMemHostRegister_v2)(word, PAGE_BYTES, CU_MEMHOSTREGISTER_PORTABLE_DEVICEMAP);
  if (result && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) return false;
  if (GS_CALL(cuMemHostGetDevicePointer_v2)(&word_on_card, word, 0)) return false;
  registered_in = context;
  return true;
}

static void refresh(void) { GS_STORE(*word, !GS_LOAD(passing) && gs_gate_must_yield()); }

/* The thread that keeps it. */

static void nap(void) {
  uint32_t seen = GS_LOAD(bell);
  if (GS_LOAD(gs_region.process->in_flight) && gs_gate_yields()) {
    struct timespec shortly = {0, LOOK_EVERY_NS};
    nanosleep(&shortly, NULL);
    return;
  }
  GS_STORE(dozing, 1);
  if (!GS_LOAD(leaving)) gs_futex_wait(&bell, seen, DOZE_NS);
  GS_STORE(dozing, 0);
}

static void *keep(void *unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, 1000ul);
  while (!GS_LOAD(leaving)) {
    refresh();
    nap();
  }
  GS_STORE(*word, 0);
  GS_STORE(living, 0);
  return NULL;
}

static bool start_keeper(void) {
  pthread_t keeper;
  GS_STORE(living, 1);
  if (gs_start_thread(&keeper, keep)) return true;
  GS_STORE(living, 0);
  return false;
}

static bool is_ready(CUcontext context) {
  if (GS_LIKELY(registered_in == context && GS_LOAD(living))) return true;
  pthread_mutex_lock(&making);
  bool ready = (word || make_page()) && (registered_in == context || register_page(context)) &&
               (GS_LOAD(living) || (!GS_LOAD(leaving) && start_keeper()));
  if (!ready) GS_STORE(useless, 1);
  pthread_mutex_unlock(&making);
  return ready;
}

static void wake_keeper(void) {
  if (GS_LIKELY(!GS_LOAD(dozing))) return;
  refresh(); /* it will be late */
  GS_ADD(bell, 1);
  gs_futex_wake(&bell, 1);
}

/* Called with the stream locked, before work goes to it. */
void gs_yield_before(struct gs_stream *stream, const struct gs_learned *learned, uint64_t cost_ns) {
  if (GS_LIKELY(!gs_gate_yields()) || GS_PEEK(useless) || GS_PEEK(gs_captures) || learned->collective) return;
  stream->standless_ns += cost_ns;
  if (GS_UNLIKELY(GS_PEEK(passing))) GS_STORE(passing, 0);
  if (stream->standless_ns < gs_gate_stand_ns() || !is_ready(stream->context->handle)) return;
  wake_keeper();
  if (GS_CALL(cuStreamWaitValue32_v2)(stream->current, word_on_card, 0, CU_STREAM_WAIT_VALUE_EQ))
    GS_STORE(useless, 1);
  stream->standless_ns = 0;
}

/* Whatever stands still goes on: the driver may be about to wait for it. */
void gs_yield_leave(void) {
  GS_STORE(leaving, 1);
  GS_ADD(bell, 1);
  gs_futex_wake(&bell, 1);
  if (word) GS_STORE(*word, 0);
}

void gs_yield_context_going(CUcontext context) {
  if (registered_in != context) return;
  GS_STORE(passing, 1);
  GS_STORE(*word, 0);
  registered_in = NULL; /* by another context of that name, later, it is registered anew */
}

void gs_yield_forget(void) {
  word = NULL; /* not ours after a fork */
  registered_in = NULL;
  useless = leaving = living = dozing = bell = passing = 0;
  pthread_mutex_init(&making, NULL);
}
