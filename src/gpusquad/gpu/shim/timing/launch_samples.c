/* Timed launches, each between two events of ours. No thread waits for them. A program that runs ahead of the card
 * keeps its samples pending for long, so a kernel without enough samples may have many pending, and any other kernel
 * one. */
#include "streams/streams.h"

uint32_t gs_pending_samples;

static struct gs_sample *current_sample(struct gs_stream *stream) {
  return &stream->samples[(stream->first_sample + stream->sample_count) % GS_SAMPLES];
}

static bool has_room(const struct gs_stream *stream, const struct gs_kernel_info *info) {
  return !stream->sample_count || (stream->sample_count < GS_SAMPLES && gs_measure_needs_samples(info));
}

static bool record_first(struct gs_stream *stream, struct gs_sample *sample) {
  sample->on = stream->current;
  return gs_event_record(&sample->first, CU_EVENT_DEFAULT, stream->current);
}

static void drop_pending(struct gs_sample *sample) { GS_SUB(sample->info->pending, 1); }

void gs_sample_begin(struct gs_stream *stream, struct gs_kernel_info *info) {
  struct gs_sample *sample = current_sample(stream);
  if (stream->sampling != GS_NO_SAMPLE || !has_room(stream, info) || !record_first(stream, sample)) return;
  sample->info = info;
  sample->width = gs_measure_width_now();
  GS_ADD(info->pending, 1);
  stream->sampling = GS_SAMPLE_BEGUN;
}

void gs_sample_moved(struct gs_stream *stream) {
  if (stream->sampling != GS_SAMPLE_BEGUN || record_first(stream, current_sample(stream))) return;
  drop_pending(current_sample(stream));
  stream->sampling = GS_NO_SAMPLE;
}

void gs_sample_end(struct gs_stream *stream, CUresult result) {
  if (stream->sampling != GS_SAMPLE_BEGUN) return;
  struct gs_sample *sample = current_sample(stream);
  bool moved = sample->on != stream->current;
  stream->sampling = GS_NO_SAMPLE;
  if (result || moved || !gs_event_record(&sample->last, CU_EVENT_DEFAULT, stream->current)) {
    drop_pending(sample);
    return;
  }
  stream->sample_count++;
  GS_ADD(gs_pending_samples, 1);
}

static void remove_first(struct gs_stream *stream) {
  drop_pending(&stream->samples[stream->first_sample]);
  stream->first_sample = (stream->first_sample + 1) % GS_SAMPLES;
  stream->sample_count--;
  GS_SUB(gs_pending_samples, 1);
}

void gs_samples_settle(struct gs_stream *stream) {
  float ms;
  while (stream->sample_count) {
    struct gs_sample *sample = &stream->samples[stream->first_sample];
    if (gs_event_query(sample->last) == CUDA_ERROR_NOT_READY) return;
    if (GS_CALL(cuEventElapsedTime)(&ms, sample->first, sample->last) == CUDA_SUCCESS)
      gs_measure_add_sample(sample->info, sample->width, ms * 1000.0f);
    remove_first(stream);
  }
}

void gs_samples_abandon(struct gs_stream *stream) {
  if (stream->sampling != GS_NO_SAMPLE) drop_pending(current_sample(stream));
  stream->sampling = GS_NO_SAMPLE;
  while (stream->sample_count) remove_first(stream);
}

void gs_samples_destroy(struct gs_stream *stream) {
  if (!GS_PEEK(gs_active_captures)) gs_samples_settle(stream); /* a stream that is used once also gives times */
  gs_samples_abandon(stream);
  for (uint32_t i = 0; i < GS_SAMPLES; i++) {
    if (stream->samples[i].first) GS_CALL(cuEventDestroy_v2)(stream->samples[i].first);
    if (stream->samples[i].last) GS_CALL(cuEventDestroy_v2)(stream->samples[i].last);
  }
}
