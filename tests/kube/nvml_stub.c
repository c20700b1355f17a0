/* Stub of NVIDIA's libnvidia-ml for containers of tests: one idle card with the functions that `gpusquad measure` uses.
 * Other functions are missing, as in an old driver. */

#include <string.h>

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilisation;

static int copy_text(char *text, unsigned int size, const char *value) {
    strncpy(text, value, size);
    return 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **card) { *card = "card"; return index == 0 ? 0 : 2; }
int nvmlDeviceGetName(void *card, char *text, unsigned int size) { return copy_text(text, size, "Stub"); }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { return copy_text(text, size, "1.2.3"); }
int nvmlDeviceGetPowerUsage(void *card, unsigned int *milliwatts) { *milliwatts = 70000; return 0; }

int nvmlDeviceGetMemoryInfo(void *card, Memory *memory) {
    *memory = (Memory){1ULL << 34, 1ULL << 34, 0};
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *card, Utilisation *rates) {
    *rates = (Utilisation){50, 25};
    return 0;
}
