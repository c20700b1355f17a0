/* What a launch is and how long it runs: kernel times, timed launches, iterations. */
#ifndef GPUSQUAD_TIMING_H
#define GPUSQUAD_TIMING_H

#include "shim.h"

struct gs_stream;

enum { GS_KERNEL = 1, GS_COPY = 2, GS_GRAPH = 3 };

/* One launch, as its hook describes it. */
struct gs_work {
  uint32_t kind;
  uint32_t shared;    /* bytes of shared memory per block */
  const void *handle; /* function, graph, or the name of a copy */
  uint32_t grid[3], block[3];
  uint64_t bytes;
  const CUlaunchConfig *config; /* NULL: the kernel was launched without one */
  bool cooperative;             /* all of its blocks must be resident at once */
};

#define GS_WIDTHS 6 /* unrestricted; on 1, 2 to 3, 4 to 7, 8 to 15, more SM groups */

/* What this process knows about one kernel, graph or size class of copies. Rows are never removed. All that a launch
 * reads lies in one cache line. */
struct gs_kernel_info {
  uint64_t key;        /* hash of handle and shape, valid in this process; 0: free row */
  uint64_t identity;   /* hash of name and shape, valid in all processes */
  uint32_t ready;      /* the fields below may be read */
  uint16_t collective; /* spins until its peers run too: never held */
  uint16_t guessed;    /* no launch of it was timed yet */
  uint32_t seen;       /* launches */
  int32_t row;         /* in the client's table, or -1 */
  float mean_us[GS_WIDTHS];
  uint8_t samples[GS_WIDTHS]; /* saturates at 255 */
  uint8_t pending;            /* samples whose events are not complete yet */
  float var[GS_WIDTHS];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct gs_kernel_info, var) == 64, "all that a launch reads lies in one cache line");

/* A launch between two events that measure its time. */
struct gs_sample {
  CUevent first, last;
  struct gs_kernel_info *info;
  CUstream on;
  uint32_t width; /* of the client's partition, wherever the launch runs: times are looked up by it */
};

/* kernel_times.c */
enum { GS_DUE_SAMPLE = 1, GS_DUE_SETTLE = 2 }; /* time this launch; read the times of completed samples */
struct gs_kernel_info *gs_measure_launch(const struct gs_work *work, uint32_t *due);
void gs_measure_captured(const struct gs_work *work); /* the launch is recorded in a graph */
uint64_t gs_measure_cost_ns(const struct gs_kernel_info *info, const struct gs_work *work);
bool gs_measure_needs_samples(const struct gs_kernel_info *info); /* time each of its next launches */
void gs_measure_add_sample(struct gs_kernel_info *info, uint32_t width, float us);
uint32_t gs_measure_width_now(void);     /* of the partition that work goes to now */
void gs_measure_set_mask(uint64_t mask); /* work goes to these SM groups from now on; 0: unrestricted */
void gs_measure_forget(void);

/* launch_samples.c; the stream is locked */
enum { GS_NO_SAMPLE = 0, GS_SAMPLE_BEGUN = 1, GS_SAMPLE_UNLOCKED = 2 };
void gs_sample_begin(struct gs_stream *stream, struct gs_kernel_info *info);
void gs_sample_moved(struct gs_stream *stream); /* the timed launch goes to another stream than expected */
void gs_sample_end(struct gs_stream *stream, CUresult result);
void gs_samples_settle(struct gs_stream *stream);
void gs_samples_destroy(struct gs_stream *stream);
void gs_samples_abandon(struct gs_stream *stream); /* the same if the events ended with their context */
extern uint32_t gs_pending_samples;                /* on all streams */

/* iterations.c */
void gs_iterations_add_launch(uint64_t launch, uint64_t key);
void gs_iterations_forget(void);

#endif
