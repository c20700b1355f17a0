/* The card memory that this process holds, by pointer or handle. A free does not give the size, so it is kept here. */
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
  const void *context; /* the entry ends with it; NULL: outlives contexts */
  void *owner;         /* pool or physical memory that it is part of */
};

/* Called before the driver call, so that nothing can fail after it. NULL: out of host memory. */
struct gs_entry *gs_entry_new(enum gs_kind kind, uint64_t bytes);

void gs_ledger_put(struct gs_entry *entry, uint64_t key);
/* Removes the entry; the caller puts it back or frees it. NULL: unknown. */
struct gs_entry *gs_ledger_take(enum gs_kind kind, uint64_t key);
/* Removes all entries of a context; returns their bytes. */
uint64_t gs_ledger_drop_context(const void *context);
/* After fork. */
void gs_ledger_forget(void);

#endif
