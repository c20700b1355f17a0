/* Whether the work at the head of a stream may start, and since when. */
#include "standin.h"

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_blocking(const struct si_stream *stream)
{
    return !stream->is_legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The legacy stream waits for earlier work of the blocking streams of its context. */
static bool legacy_may(const struct si_op *op, int64_t *ready_ns)
{
    for (const struct si_stream *other = si_me.streams; other; other = other->next) {
        if (other->context != op->stream->context || !is_blocking(other)) continue;
        if (other->head && other->head->seq < op->seq) return false;
        *ready_ns = later(*ready_ns, other->done_ns);
    }
    return true;
}

/* Blocking streams wait for earlier work of the legacy stream. */
static bool blocking_may(const struct si_op *op, int64_t *ready_ns)
{
    const struct si_stream *legacy = op->stream->context->legacy;
    if (legacy->head && legacy->head->seq < op->seq) return false;
    *ready_ns = later(*ready_ns, legacy->done_ns);
    return true;
}

bool si_may_start(const struct si_op *op, int64_t *ready_ns)
{
    *ready_ns = later(op->submit_ns, op->stream->done_ns);
    if (op->kind == SI_WAIT && op->mark) {
        if (!op->mark->done) return false;
        *ready_ns = later(*ready_ns, op->mark->time_ns);
    }
    if (op->stream->is_legacy) return legacy_may(op, ready_ns);
    if (is_blocking(op->stream)) return blocking_may(op, ready_ns);
    return true;
}
