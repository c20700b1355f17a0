/* A running mean that forgets old samples, because neighbours change. The first launches may have waited for their code
 * to be loaded, so the shortest of them counts. One long sample has little weight. A short one has much: neighbours
 * make a kernel longer, and nothing makes it shorter than it is. */
#include "timing/running_mean.h"

#include <math.h>

#define MAX_RATIO 4.0f /* one sample counts as at most this many times the mean */
#define MAX_WINDOW 16.0f /* samples */
#define SHORTER_WEIGHT 0.5f  /* of a sample below the mean */

void gs_running_mean(float *mean_us, float *var, uint32_t samples, float us) {
  if (samples <= GS_FIRST_SAMPLES) {
    *mean_us = samples == 1 ? us : fminf(us, *mean_us);
    *var = 0.0f;
    return;
  }
  float step = 1.0f / fminf((float)(samples - GS_FIRST_SAMPLES + 1), MAX_WINDOW);
  float off = fminf(us, MAX_RATIO * *mean_us + 1.0f) - *mean_us;
  if (off < 0.0f) step = fmaxf(step, SHORTER_WEIGHT);
  *mean_us += step * off;
  *var = (1.0f - step) * (*var + step * off * off);
}
