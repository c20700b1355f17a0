/* Stands in for NVIDIA's libnvidia-ml in containers of tests: one idle card, as far as measuring asks. Whatever else is
 * asked for is not in this library, as with an old driver. */

#include <string.h>

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilisation;

static int say(char *text, unsigned int size, const char *words) {
    strncpy(text, words, size);
    return 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **card) { *card = "card"; return index == 0 ? 0 : 2; }
int nvmlDeviceGetName(void *card, char *text, unsigned int size) { return say(text, size, "Stub"); }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { return say(text, size, "1.2.3"); }
int nvmlDeviceGetPowerUsage(void *card, unsigned int *milliwatts) { *milliwatts = 70000; return 0; }

int nvmlDeviceGetMemoryInfo(void *card, Memory *memory) {
    *memory = (Memory){1ULL << 34, 1ULL << 34, 0};
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *card, Utilisation *rates) {
    *rates = (Utilisation){50, 25};
    return 0;
}
