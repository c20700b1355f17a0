/* Declarations shared by the files of the stand-in driver. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "card.h"
#include "standin_cuda.h"

enum si_kind { SI_KERNEL, SI_COPY, SI_SET, SI_HOST, SI_RECORD, SI_WAIT, SI_POOL_FREE, SI_AWAIT_VALUE,
               SI_GRAPH_ALLOC, SI_GRAPH_FREE };
enum si_effect { SI_NOTHING, SI_ADD, SI_COPY2, SI_BURN };

struct si_mark { /* one record of an event; several streams may wait for it */
    int holders;
    bool done;
    int64_t time_ns;
};

struct si_nodes { struct si_op **all; size_t count, capacity; }; /* a set of graph nodes */

struct si_op {                  /* one piece of work in a stream */
    struct si_op *next;
    struct si_stream *stream;
    enum si_kind kind;
    uint64_t seq;               /* order of submission in the process */
    bool started, ended, from_graph;
    int64_t submit_ns, start_ns, end_ns, duration_ns;
    si_mask allowed;            /* SMs of its stream at submission or capture */
    struct {
        struct si_function *function;
        uint32_t full_sms, grid[3], block[3];
        enum si_effect effect;
        bool overlaps;          /* may start before the previous kernel has ended */
        CUdeviceptr target;
        int entry;              /* index on the card while it runs */
        si_mask used;
        double sm_ns;
    } kernel;
    struct { char *to; const char *from; char *staged; size_t width, height, to_pitch, from_pitch; } copy;
    struct { CUdeviceptr to; uint64_t value; uint32_t width; size_t count; unsigned how; } set; /* or wait for it */
    struct { CUhostFn function; CUstreamCallback callback; CUstream handle; void *data; } host;
    struct si_mark *mark;
    struct si_alloc *alloc;     /* freed, or allocated by a graph */
    struct si_nodes after;      /* in a graph: dependencies */
    uint64_t visited;           /* mark of the last graph traversal */
    struct si_context *context; /* in a graph: context of the captured stream */
};

struct si_capture;

struct si_stream {
    uint32_t magic;
    struct si_stream *next;
    struct si_context *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    bool is_legacy, is_thread, is_destroyed;
    si_mask allowed;
    struct si_op *head, *tail;
    int64_t done_ns;      /* end of its latest work */
    struct si_capture *capture;
    uint32_t waiters;     /* threads in cuStreamSynchronize */
    bool unjoined;        /* has captured work that the origin does not depend on yet */
    struct si_nodes deps; /* dependencies of the next captured work */
};

struct si_context {
    uint32_t magic;
    bool is_green, is_primary, is_destroyed;
    unsigned long long id;
    si_mask allowed;
    uint64_t charged_bytes;
    struct si_stream *legacy;
    uint32_t generation; /* number of resets: the primary context keeps its handle */
};

struct si_event {
    uint32_t magic;
    unsigned flags;
    struct si_context *context; /* owner, and its generation when the event was created */
    uint32_t generation;
    struct si_mark *mark;
    struct si_capture *capture; /* if recorded in a captured stream */
    unsigned long long capture_id;
    struct si_stream *captured_in;
    struct si_nodes deps;       /* dependencies of that stream at the record */
};

struct si_function {
    uint32_t magic;
    struct si_function *next;
    struct si_module *module;
    char name[128];
    uint32_t full_sms;   /* 0: as many SMs as blocks */
    int64_t duration_us; /* on the whole card; -1: an argument gives it */
    enum si_effect effect;
    uint32_t ranks;      /* a collective: spins until this many kernels of the name run; 0: none */
};

struct si_module { uint32_t magic; struct si_function *functions; };

enum si_memory { SI_DEVICE, SI_MANAGED, SI_PINNED, SI_REGISTERED, SI_POOLED, SI_MAPPED, SI_IMPORTED,
                 SI_OF_GRAPH };

struct si_alloc {
    char *base;
    size_t bytes;
    enum si_memory memory;
    uint64_t charged_bytes;
    int fd;                   /* file shared with other processes; -1: none */
    bool dead;                /* freed in stream order, not yet executed */
    bool is_live;             /* of a launched graph, not freed since */
    struct si_context *owner; /* the memory ends with this context */
    struct si_pool *pool;
    struct si_alloc *next_free;
    struct si_backing *backing;
};

#define SI_STREAM_MAGIC 0x5354524du
#define SI_CONTEXT_MAGIC 0x43545831u
#define SI_EVENT_MAGIC 0x45564e54u
#define SI_FUNCTION_MAGIC 0x46554e43u
#define SI_MODULE_MAGIC 0x4d4f4455u

struct si_process {
    bool ready, forked;
    struct si_card *card;
    int card_fd, log_fd, slot;
    uint32_t sms;           /* limit by the MPS percentage */
    pthread_mutex_t lock;   /* guards the fields below and what they point to */
    pthread_cond_t changed; /* work has ended */
    struct si_stream *streams;
    struct si_context *primary;
    unsigned primary_flags;
    int primary_holders, green_contexts, pending, max_pending, captures;
    size_t events;          /* created and not destroyed */
    uint64_t seq;
    unsigned long long ids;
    CUresult error;         /* sticky, as on a real card */
    struct si_op *entry_ops[SI_ENTRIES];
    struct si_op *callbacks, *callbacks_tail;
    pthread_cond_t callback_added;
};

extern struct si_process si_me;
extern __thread CUstream si_default_stream; /* meaning of stream 0 in the current call */

/* Two exported functions that call `name_in`: with stream 0 as the legacy stream, and as the per-thread stream. */
#define SI_EXPORT_BOTH(name, suffix, params, args)                                                       \
    CUresult name params { si_default_stream = CU_STREAM_LEGACY; return name##_in args; }                \
    CUresult name##suffix params { si_default_stream = CU_STREAM_PER_THREAD; return name##_in args; }

#define SI_TRY(call)                               \
    do {                                           \
        CUresult si_result = (call);               \
        if (si_result != CUDA_SUCCESS) return si_result; \
    } while (0)

/* device.c */
CUresult si_ready(void);
CUresult si_need_context(struct si_context **context);
struct si_context *si_current(void);
struct si_context *si_primary_retain(void);
void si_primary_release(void);
struct si_context *si_context_new(bool green, si_mask allowed, uint64_t charge_bytes);
void si_context_end(struct si_context *context);

/* work.c: functions that end in _locked need si_me.lock */
CUresult si_work_start(void);
struct si_op *si_op_new(enum si_kind kind);
void si_op_drop(struct si_op *op);
CUresult si_submit_locked(struct si_stream *stream, struct si_op *op);
CUresult si_submit(CUstream handle, struct si_op *op, struct si_stream **where);
bool si_wait_locked(struct si_stream *stream, struct si_context *context, uint64_t seq);
void si_wait_for_all_locked(void);
bool si_is_idle_locked(const struct si_stream *stream);
void si_wait_for_queue_locked(void);
int64_t si_clock_ns(void);
void si_wake_worker(void);
struct si_mark *si_mark_new(void);
void si_mark_drop(struct si_mark *mark);

/* order.c: whether the head of a stream may start */
bool si_may_start(const struct si_op *op, int64_t *ready_ns);

/* effect.c: effects of work on memory, and the log */
void si_apply(struct si_op *op);
bool si_has_value(const struct si_op *op);
void si_log(const struct si_op *op);

/* streams.c */
CUresult si_stream_of(CUstream handle, struct si_stream **stream);
struct si_stream *si_stream_new(struct si_context *context, unsigned flags, int priority);
CUresult si_record_locked(struct si_event *event, struct si_stream *stream, unsigned flags);
CUresult si_await_locked(struct si_stream *stream, struct si_event *event);

/* capture.c */
CUresult si_capture_add_locked(struct si_stream *stream, struct si_op *op);
CUresult si_capture_record_locked(struct si_stream *stream, struct si_event *event);
CUresult si_capture_await_locked(struct si_stream *stream, struct si_event *event, bool *handled);
CUresult si_capture_invalidate_locked(struct si_stream *stream, CUresult result);
CUresult si_capture_refuses_locked(struct si_stream *stream);
CUresult si_capture_legacy_locked(const struct si_stream *stream);
bool si_captured_locked(const struct si_event *event);
CUresult si_capture_unsafe_locked(void);
void si_capture_end_with_locked(struct si_stream *stream);

/* graph.c */
CUgraph si_graph_new(void);
void si_graph_append_locked(CUgraph graph, struct si_op *op);
void si_graph_drop_locked(CUgraph graph);

/* edges.c: dependencies of captured work */
void si_nodes_set(struct si_nodes *nodes, const struct si_nodes *to);
void si_nodes_add(struct si_nodes *nodes, const struct si_nodes *more);
void si_nodes_replace(struct si_nodes *nodes, struct si_op *only);
void si_nodes_clear(struct si_nodes *nodes);
bool si_nodes_include(const struct si_nodes *last, const struct si_nodes *some); /* `last` depends on all of `some` */

/* graph_memory.c */
struct si_op *si_graph_alloc_new_locked(size_t bytes, CUresult *result);
struct si_op *si_graph_free_new_locked(CUdeviceptr address);
void si_graph_reclaim_locked(struct si_alloc *alloc);
CUresult si_graph_map_locked(const struct si_op *ops, bool live);

/* launch.c */
CUresult si_module_from_text(struct si_module **module, const char *text);

/* memory.c */
struct si_alloc *si_find_locked(const void *address, size_t bytes);
struct si_alloc *si_alloc_new_locked(size_t bytes, enum si_memory memory, bool charge, CUresult *result);
void si_alloc_add_locked(struct si_alloc *alloc);
void si_alloc_end_locked(struct si_alloc *alloc);
void si_alloc_forget_locked(struct si_alloc *alloc);
void si_forget_context_locked(const struct si_context *context);

/* pools.c */
void si_pool_reclaim_locked(struct si_alloc *alloc);
void si_pools_trim_locked(void);
#endif
