/* The time of a kernel, from samples of it. */
#ifndef GPUSQUAD_RUNNING_MEAN_H
#define GPUSQUAD_RUNNING_MEAN_H

#include <stdint.h>

#define GS_FIRST_SAMPLES 3u /* of a kernel: all launches are timed, and the shortest counts */

/* The next sample, which makes so many. */
void gs_running_mean(float *mean_us, float *var, uint32_t samples, float us);

#endif
