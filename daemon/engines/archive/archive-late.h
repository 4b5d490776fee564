/*
 * archive-late: loads libarchive when it is needed for the first time. It depends on a dozen
 * libraries. Loading them takes half of the time of a worker's start, and a mount or a copy needs
 * none of them. The functions of libarchive that our code calls are defined here under their own
 * names and declared by libarchive's headers.
 */
#pragma once

#include <stdbool.h>

/* Loads libarchive once. Returns false if this node does not have it; then archive_read_new()
 * returns NULL. */
bool archive_late_load(void);
