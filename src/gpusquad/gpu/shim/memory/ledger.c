/* The ledger: a hash table in stripes, each with its own lock. */
#include "memory/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "locks.h"

#define STRIPES 64u  /* threads that allocate at once seldom share a lock */
#define CHAINS 1024u /* per stripe */

struct stripe {
  pthread_mutex_t lock;
  struct gs_entry **chains; /* allocated with the first entry */
};

static struct stripe stripes[STRIPES] = {[0 ... STRIPES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* Pointers are multiples of large powers of two, so the upper bits of a product are used. */
static uint64_t mix(enum gs_kind kind, uint64_t key) { return (key + kind) * 0x9e3779b97f4a7c15ull; }

static struct stripe *stripe_of(uint64_t mixed) { return &stripes[(mixed >> 58) % STRIPES]; }

static uint64_t chain_of(uint64_t mixed) { return (mixed >> 40) % CHAINS; }

struct gs_entry *gs_entry_new(enum gs_kind kind, uint64_t bytes) {
  struct gs_entry *entry = calloc(1, sizeof *entry);
  if (!entry) return NULL;
  entry->kind = kind;
  entry->bytes = bytes;
  return entry;
}

void gs_ledger_put(struct gs_entry *entry, uint64_t key) {
  uint64_t mixed = mix(entry->kind, key);
  struct stripe *stripe = stripe_of(mixed);
  entry->key = key;
  gs_lock(&stripe->lock, GS_RANK_LEDGER);
  if (!stripe->chains) stripe->chains = calloc(CHAINS, sizeof *stripe->chains);
  if (!stripe->chains) abort(); /* not even 8 KiB: such a process cannot continue */
  struct gs_entry **chain = &stripe->chains[chain_of(mixed)];
  entry->next = *chain;
  *chain = entry;
  gs_unlock(&stripe->lock);
}

struct gs_entry *gs_ledger_take(enum gs_kind kind, uint64_t key) {
  uint64_t mixed = mix(kind, key);
  struct stripe *stripe = stripe_of(mixed);
  struct gs_entry *found = NULL;
  gs_lock(&stripe->lock, GS_RANK_LEDGER);
  struct gs_entry **link = stripe->chains ? &stripe->chains[chain_of(mixed)] : NULL;
  while (link && *link && ((*link)->key != key || (*link)->kind != kind)) link = &(*link)->next;
  if (link && *link) {
    found = *link;
    *link = found->next;
  }
  gs_unlock(&stripe->lock);
  return found;
}

static uint64_t drop_from(struct gs_entry **link, const void *context) {
  uint64_t bytes = 0;
  while (*link) {
    struct gs_entry *entry = *link;
    if (entry->context != context) {
      link = &entry->next;
      continue;
    }
    bytes += entry->bytes;
    *link = entry->next;
    free(entry);
  }
  return bytes;
}

uint64_t gs_ledger_drop_context(const void *context) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < STRIPES && context; i++) {
    gs_lock(&stripes[i].lock, GS_RANK_LEDGER);
    for (uint32_t j = 0; stripes[i].chains && j < CHAINS; j++) bytes += drop_from(&stripes[i].chains[j], context);
    gs_unlock(&stripes[i].lock);
  }
  return bytes;
}

/* The parent's entries are leaked: memory must not be freed here, and few children use CUDA. */
void gs_ledger_forget(void) {
  for (uint32_t i = 0; i < STRIPES; i++) {
    pthread_mutex_init(&stripes[i].lock, NULL);
    stripes[i].chains = NULL;
  }
}
