/*
 * archive-late: libarchive, loaded when it is needed for the first time.
 *
 * It brings a dozen libraries along, which cost half of the time in which a worker starts; a mount
 * and a copy need none of them. Its functions that decode.c calls are defined here under their own
 * names and declared by its own headers.
 */
#pragma once

#include <stdbool.h>

/* Loads it, once. False: it is not on this node, and archive_read_new() gives NULL. */
bool archive_late_load(void);
