/*
 * hostile-tar: random tars that try to get out of the directory into which they are extracted. They
 * have links, "..", absolute names, repeated names, directories replaced by links, links with data,
 * names in pax and GNU records, sparse files, devices, members in all dialects, and wrong checksums
 * and sizes.
 */
#pragma once

#include <stddef.h>

/* canary: an absolute directory to aim at. The caller frees. */
void *hostile_tar_new(const char *canary, size_t *sizep);
