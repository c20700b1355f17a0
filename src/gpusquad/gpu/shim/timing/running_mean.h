/* The mean time of a kernel over its samples. */
#ifndef GPUSQUAD_RUNNING_MEAN_H
#define GPUSQUAD_RUNNING_MEAN_H

#include <stdint.h>

#define GS_FIRST_SAMPLES 3u /* of a kernel: every launch is timed, and the shortest counts */

/* Adds the sample with the number `samples`, counted from 1. */
void gs_running_mean(float *mean_us, float *var, uint32_t samples, float us);

#endif
