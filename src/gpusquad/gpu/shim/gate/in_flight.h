/* in_flight.c: what is queued and when it is complete. */
#ifndef GPUSQUAD_IN_FLIGHT_H
#define GPUSQUAD_IN_FLIGHT_H

#include "streams/streams.h"

/* The stream is locked. */
void gs_flight_launching(struct gs_stream *stream, uint64_t cost_ns);
void gs_flight_launched(struct gs_stream *stream);
void gs_flight_settle(struct gs_stream *stream);

/* The stream is in no table any more. */
void gs_flight_destroy(struct gs_stream *stream);
void gs_flight_abandon(struct gs_stream *stream); /* the same if the events ended with their context */

uint64_t gs_flight_ns(void);        /* predicted time of what is queued */
void gs_flight_start_watcher(void); /* a thread that follows the queue while there are neighbours */
void gs_flight_stop_watcher(void);  /* the driver is about to be unloaded: the thread must not be in it */
void gs_flight_after_sync(void);    /* the caller has waited for something */
void gs_flight_forget(void);
bool gs_start_thread(pthread_t *thread, void *(*run)(void *)); /* all of the program's signals are blocked in it */

#endif
