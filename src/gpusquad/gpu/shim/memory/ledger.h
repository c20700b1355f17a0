/* What this process holds of the card, by pointer or handle: how else would one know how much a free gives back? */
#ifndef GPUSQUAD_LEDGER_H
#define GPUSQUAD_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum gs_kind { GS_POINTER, GS_ARRAY, GS_MIPMAPS, GS_HANDLE, GS_MAPPING, GS_GRAPH_MEMORY };

struct gs_entry {
  struct gs_entry *next;
  enum gs_kind kind;
  uint64_t key;
  uint64_t bytes;
  const void *context; /* goes with it; NULL: outlives contexts */
  void *owner;         /* pool or physical memory it is part of */
};

/* Made before the driver is asked, so that nothing can fail once it has said yes. NULL: no memory. */
struct gs_entry *gs_entry_new(enum gs_kind kind, uint64_t bytes);

void gs_ledger_put(struct gs_entry *entry, uint64_t key);
/* Out of the ledger, and the caller's to put back or to free(); NULL: not ours. */
struct gs_entry *gs_ledger_take(enum gs_kind kind, uint64_t key);
/* Removes all that goes with a context; returns their bytes. */
uint64_t gs_ledger_drop_context(const void *context);
/* After fork. */
void gs_ledger_forget(void);

#endif
