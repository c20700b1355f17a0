/* Finds the C library's own dlsym and dlvsym. The shim exports both names, so the dynamic linker would return ours.
 * They are read from the symbol table of the object that defines them. No memory is allocated. */
#include "hooks/c_library.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct table {
  const ElfW(Sym) * symbols;
  const char *names;
  const uint32_t *hashes;
};

struct search {
  const char *name;
  const void *ours; /* to be skipped */
  bool anywhere;    /* also in objects that do not look like a C library */
  void *found;
};

static uint32_t gnu_hash(const char *name) {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

static bool read_tables(const struct dl_phdr_info *object, struct table *table) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
      if (entry->d_tag == DT_SYMTAB) table->symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) table->names = (const char *)entry->d_un.d_ptr;
      if (entry->d_tag == DT_GNU_HASH) table->hashes = (const uint32_t *)entry->d_un.d_ptr;
    }
  }
  return table->symbols && table->names && table->hashes;
}

/* The GNU hash section: bucket count, first hashed symbol, size of the filter, a shift; the filter; buckets; chains.
 * The last member of a chain has an odd hash. */
static const ElfW(Sym) * look_up(const struct table *table, const char *name) {
  uint32_t buckets = table->hashes[0], first = table->hashes[1], filter = table->hashes[2];
  const uint32_t *bucket = table->hashes + 4 + filter * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chain = bucket + buckets;
  uint32_t hash = gnu_hash(name);
  uint32_t index = bucket[hash % buckets];
  if (index < first) return NULL;
  for (;; index++) {
    uint32_t member = chain[index - first];
    const ElfW(Sym) *symbol = &table->symbols[index];
    bool same = (member | 1) == (hash | 1) && strcmp(table->names + symbol->st_name, name) == 0;
    if (same && symbol->st_shndx != SHN_UNDEF) return symbol;
    if (member & 1) return NULL;
  }
}

static bool is_c_library(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *file = slash ? slash + 1 : path;
  return strncmp(file, "libc.so", 7) == 0 || strncmp(file, "libc-2", 6) == 0 || strncmp(file, "libdl", 5) == 0;
}

static int visit(struct dl_phdr_info *object, size_t size, void *argument) {
  (void)size;
  struct search *search = argument;
  struct table table = {0};
  bool looked_at = object->dlpi_name && *object->dlpi_name && strncmp(object->dlpi_name, "linux-vdso", 10) != 0 &&
                   (search->anywhere || is_c_library(object->dlpi_name));
  if (!looked_at || !read_tables(object, &table)) return 0;
  const ElfW(Sym) *symbol = look_up(&table, search->name);
  void *found = symbol ? (void *)(object->dlpi_addr + symbol->st_value) : NULL;
  if (!found || found == search->ours) return 0;
  search->found = found;
  return 1;
}

void *gs_c_library_function(const char *name, const void *ours) {
  struct search search = {.name = name, .ours = ours};
  dl_iterate_phdr(visit, &search);
  search.anywhere = true;
  if (!search.found) dl_iterate_phdr(visit, &search);
  return search.found;
}
