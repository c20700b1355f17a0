#ifndef GPUSQUAD_C_LIBRARY_H
#define GPUSQUAD_C_LIBRARY_H

/* Finds a function that the C library defines, or any other object except us; NULL: none does. */
void *gs_c_library_function(const char *name, const void *ours);

#endif
