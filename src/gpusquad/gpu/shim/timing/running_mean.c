/* A mean in which the old is forgotten, because neighbours change. The first launches may have waited for their code to
 * be loaded, so of those the shortest counts; and one long delay is not believed at once. A short time is: neighbours
 * make a kernel longer, nothing makes it shorter than it is. */
#include "timing/running_mean.h"

#include <math.h>

#define LONGEST 4.0f /* times the mean that one sample counts for */
#define MEMORY 16.0f /* samples that the mean remembers */
#define BELIEF 0.5f  /* of a shorter one */

void gs_running_mean(float *mean_us, float *var, uint32_t samples, float us) {
  if (samples <= GS_FIRST_SAMPLES) {
    *mean_us = samples == 1 ? us : fminf(us, *mean_us);
    *var = 0.0f;
    return;
  }
  float step = 1.0f / fminf((float)(samples - GS_FIRST_SAMPLES + 1), MEMORY);
  float off = fminf(us, LONGEST * *mean_us + 1.0f) - *mean_us;
  if (off < 0.0f) step = fmaxf(step, BELIEF);
  *mean_us += step * off;
  *var = (1.0f - step) * (*var + step * off * off);
}
