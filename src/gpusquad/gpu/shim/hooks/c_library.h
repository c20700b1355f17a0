#ifndef GPUSQUAD_C_LIBRARY_H
#define GPUSQUAD_C_LIBRARY_H

/* A function that the C library itself defines, whoever else does too, or anybody but us; NULL if nobody does. */
void *gs_c_library_function(const char *name, const void *ours);

#endif
