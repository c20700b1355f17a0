/* The queues of this process and their worker thread.
 *
 * One worker serves all streams: it finishes due work, starts work that may start, and sleeps until the next change.
 * Host functions have a separate thread, so that a blocking function does not stop other streams. */
#define _GNU_SOURCE
#include "standin.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SI_POLL_NS 200000 /* poll interval for values that the host may write */

int64_t si_clock_ns(void) { return si_card_clock_ns(si_me.card); }

void si_wake_worker(void) { si_card_wake(si_me.card, si_me.slot); }

struct si_op *si_op_new(enum si_kind kind)
{
    struct si_op *op = calloc(1, sizeof *op);
    if (!op) abort();
    op->kind = kind;
    op->kernel.entry = -1;
    return op;
}

struct si_mark *si_mark_new(void)
{
    struct si_mark *mark = calloc(1, sizeof *mark);
    if (!mark) abort();
    mark->holders = 1;
    return mark;
}

void si_mark_drop(struct si_mark *mark)
{
    if (mark && --mark->holders == 0) free(mark);
}

void si_op_drop(struct si_op *op)
{
    si_mark_drop(op->mark);
    free(op->copy.staged);
    si_nodes_clear(&op->after);
    free(op);
}

bool si_is_idle_locked(const struct si_stream *stream) { return stream->head == NULL; }

/* A caller waits while the queue is full, as with a real card. */
void si_wait_for_queue_locked(void)
{
    while (si_me.pending >= si_me.max_pending) pthread_cond_wait(&si_me.changed, &si_me.lock);
}

/* Queues the work, or adds it to the capture of the stream. Takes ownership of `op` in all cases. */
CUresult si_submit_locked(struct si_stream *stream, struct si_op *op)
{
    CUresult result = si_me.error;
    if (stream->capture) return si_capture_add_locked(stream, op);
    if (result == CUDA_SUCCESS && stream->is_destroyed) result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && stream->context->is_destroyed) result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS) result = si_capture_legacy_locked(stream);
    if (result != CUDA_SUCCESS) {
        si_op_drop(op);
        return result;
    }
    if (!op->from_graph) si_wait_for_queue_locked(); /* the parts of a graph must stay together */
    op->stream = stream;
    if (!op->from_graph) op->allowed = stream->allowed;
    op->seq = ++si_me.seq;
    op->submit_ns = si_clock_ns();
    if (stream->tail) stream->tail->next = op;
    else stream->head = op;
    stream->tail = op;
    si_me.pending++;
    si_wake_worker();
    return CUDA_SUCCESS;
}

/* Queues the work on the stream of a handle and returns the stream in `where`. */
CUresult si_submit(CUstream handle, struct si_op *op, struct si_stream **where)
{
    struct si_stream *stream;
    CUresult result = si_stream_of(handle, &stream);
    if (result != CUDA_SUCCESS) {
        si_op_drop(op);
        return result;
    }
    if (where) *where = stream;
    pthread_mutex_lock(&si_me.lock);
    result = si_submit_locked(stream, op);
    pthread_mutex_unlock(&si_me.lock);
    return result;
}

static bool is_awaited(const struct si_stream *each, const struct si_stream *stream, const struct si_context *context)
{
    if (stream) return each == stream;
    return !context || each->context == context;
}

static bool has_pending(const struct si_stream *stream, const struct si_context *context, uint64_t seq)
{
    for (const struct si_stream *each = si_me.streams; each; each = each->next) {
        if (is_awaited(each, stream, context) && each->head && each->head->seq <= seq) return true;
    }
    return false;
}

/* Waits for all work up to `seq` of a stream, of a context, or of the process. Returns false after a fault. */
bool si_wait_locked(struct si_stream *stream, struct si_context *context, uint64_t seq)
{
    while (has_pending(stream, context, seq) && si_me.error == CUDA_SUCCESS) {
        pthread_cond_wait(&si_me.changed, &si_me.lock);
    }
    si_pools_trim_locked();
    return si_me.error == CUDA_SUCCESS;
}

void si_wait_for_all_locked(void) { si_wait_locked(NULL, NULL, si_me.seq); }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static uint64_t collective_id_of(const char *name)
{
    uint64_t hash = 14695981039346656037ull;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211ull;
    return hash;
}

static bool start_kernel(struct si_op *op, int64_t ready_ns)
{
    struct si_entry what = {
        .allowed = op->allowed,
        .full_sms = op->kernel.full_sms,
        .max_sms = op->kernel.full_sms < si_me.sms ? op->kernel.full_sms : si_me.sms,
        .priority = op->stream->priority,
        .arrive_ns = ready_ns,
        .remaining_ns = (double)op->duration_ns,
        .ranks = op->kernel.function->ranks,
        .collective_id = collective_id_of(op->kernel.function->name),
    };
    int entry = si_share_enter(si_me.card, (uint32_t)si_me.slot, &what);
    if (entry < 0) return false;
    op->kernel.entry = entry;
    si_me.entry_ops[entry] = op;
    return true;
}

static void start_host(struct si_op *op)
{
    /* `next` links the stream's queue, so the callback queue holds a copy. */
    struct si_op *callback = si_op_new(SI_HOST);
    callback->host = op->host;
    callback->alloc = (struct si_alloc *)op; /* the original op, to mark as ended */
    if (si_me.callbacks_tail) si_me.callbacks_tail->next = callback;
    else si_me.callbacks = callback;
    si_me.callbacks_tail = callback;
    pthread_cond_signal(&si_me.callback_added);
}

static bool start(struct si_op *op, int64_t ready_ns)
{
    if (op->kind == SI_KERNEL && !start_kernel(op, ready_ns)) return false;
    op->started = true;
    op->start_ns = ready_ns;
    op->end_ns = ready_ns + op->duration_ns;
    if (op->kind == SI_HOST) start_host(op);
    return true;
}

static bool is_done(struct si_op *op, int64_t now_ns)
{
    if (op->kind == SI_KERNEL || op->kind == SI_HOST) return op->ended;
    if (op->kind == SI_AWAIT_VALUE) {
        op->end_ns = later(op->start_ns, now_ns);
        return si_has_value(op);
    }
    return op->end_ns <= now_ns;
}

static void finish_head(struct si_stream *stream)
{
    struct si_op *op = stream->head;
    stream->head = op->next;
    if (!stream->head) stream->tail = NULL;
    stream->done_ns = later(stream->done_ns, op->end_ns);
    si_apply(op);
    si_log(op);
    if (op->kind == SI_RECORD) {
        op->mark->done = true;
        op->mark->time_ns = op->end_ns;
    }
    si_me.pending--;
    si_op_drop(op);
}

static bool pump(struct si_stream *stream, int64_t now_ns)
{
    bool moved = false;
    for (;;) {
        struct si_op *op = stream->head;
        int64_t ready_ns;
        if (!op) return moved;
        if (!op->started) {
            if (!si_may_start(op, &ready_ns) || !start(op, ready_ns)) return moved;
            moved = true;
        }
        if (!is_done(op, now_ns)) return moved;
        finish_head(stream);
        moved = true;
    }
}

static bool pump_all(int64_t now_ns)
{
    bool moved = false;
    for (struct si_stream *stream = si_me.streams; stream; stream = stream->next) moved |= pump(stream, now_ns);
    return moved;
}

static void collect_finished(void)
{
    struct si_card *card = si_me.card;
    for (int i = 0; i < (int)card->entry_count; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_FINISHED || entry->slot != (uint32_t)si_me.slot) continue;
        struct si_op *op = si_me.entry_ops[i];
        op->start_ns = entry->start_ns;
        op->end_ns = entry->end_ns;
        op->kernel.used = entry->used;
        op->kernel.sm_ns = entry->sm_ns;
        op->ended = true;
        si_share_leave(card, (uint32_t)si_me.slot, i);
    }
}

/* Removes destroyed streams whose work is done. */
static void drop_destroyed(void)
{
    struct si_stream **link = &si_me.streams;
    while (*link) {
        if ((*link)->is_destroyed && !(*link)->head) *link = (*link)->next;
        else link = &(*link)->next;
    }
}

static int64_t next_due(int64_t next_ns)
{
    for (const struct si_stream *stream = si_me.streams; stream; stream = stream->next) {
        const struct si_op *op = stream->head;
        if (!op || !op->started || op->kind == SI_KERNEL || op->kind == SI_HOST) continue;
        int64_t due_ns = op->end_ns;
        if (op->kind == SI_AWAIT_VALUE) due_ns += (int64_t)(SI_POLL_NS * si_me.card->speed);
        if (due_ns < next_ns) next_ns = due_ns;
    }
    return next_ns;
}

/* Processes everything up to now; returns the time of the next change. */
static int64_t work(void)
{
    int64_t next_ns;
    bool moved = false, again = true;
    si_card_lock(si_me.card);
    int64_t now_ns = si_clock_ns();
    if (now_ns - si_me.card->reaped_ns > (int64_t)(50e6 * si_me.card->speed)) {
        si_card_reap(si_me.card, si_me.card_fd, si_me.slot);
    }
    while (again) {
        enum si_step step = si_share_advance(si_me.card, (uint32_t)si_me.slot, now_ns, &next_ns);
        if (step == SI_MINE_FINISHED) collect_finished();
        again = pump_all(now_ns) || step == SI_MINE_FINISHED;
        moved |= again;
    }
    si_card_unlock(si_me.card);
    drop_destroyed();
    if (moved) pthread_cond_broadcast(&si_me.changed);
    return si_me.pending ? next_due(next_ns) : SI_NEVER;
}

static void sleep_until(int64_t card_ns, uint32_t word)
{
    struct si_slot *slot = &si_me.card->slots[si_me.slot];
    struct timespec until, *limit = NULL;
    if (card_ns != SI_NEVER) {
        int64_t at = si_card_to_monotonic_ns(si_me.card, card_ns) + 1;
        until.tv_sec = at / 1000000000;
        until.tv_nsec = at % 1000000000;
        limit = &until;
    }
    __atomic_store_n(&slot->asleep, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &slot->wake, FUTEX_WAIT_BITSET, word, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    __atomic_store_n(&slot->asleep, 0, __ATOMIC_SEQ_CST);
}

static void *run_worker(void *nothing)
{
    prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
    for (;;) {
        uint32_t word = __atomic_load_n(&si_me.card->slots[si_me.slot].wake, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&si_me.lock);
        int64_t next_ns = work();
        pthread_mutex_unlock(&si_me.lock);
        sleep_until(next_ns, word);
    }
    return nothing;
}

static struct si_op *next_callback(void)
{
    while (!si_me.callbacks) pthread_cond_wait(&si_me.callback_added, &si_me.lock);
    struct si_op *callback = si_me.callbacks;
    si_me.callbacks = callback->next;
    if (!si_me.callbacks) si_me.callbacks_tail = NULL;
    return callback;
}

static void *run_callbacks(void *nothing)
{
    pthread_mutex_lock(&si_me.lock);
    for (;;) {
        struct si_op *callback = next_callback(), *op = (struct si_op *)callback->alloc;
        pthread_mutex_unlock(&si_me.lock);
        if (callback->host.callback) callback->host.callback(callback->host.handle, si_me.error, callback->host.data);
        else callback->host.function(callback->host.data);
        pthread_mutex_lock(&si_me.lock);
        op->end_ns = later(op->start_ns, si_clock_ns());
        op->ended = true;
        free(callback);
        si_wake_worker();
    }
    return nothing;
}

CUresult si_work_start(void)
{
    pthread_t worker, callbacks;
    const char *limit = getenv("STANDIN_QUEUE");
    si_me.max_pending = limit && atoi(limit) > 0 ? atoi(limit) : 1024;
    pthread_mutex_init(&si_me.lock, NULL);
    pthread_cond_init(&si_me.changed, NULL);
    pthread_cond_init(&si_me.callback_added, NULL);
    if (pthread_create(&worker, NULL, run_worker, NULL) || pthread_create(&callbacks, NULL, run_callbacks, NULL)) {
        return CUDA_ERROR_UNKNOWN;
    }
    pthread_detach(worker);
    pthread_detach(callbacks);
    return CUDA_SUCCESS;
}
