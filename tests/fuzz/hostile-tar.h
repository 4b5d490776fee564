/*
 * hostile-tar: random tars that try to get out of the directory that they are opened in: links,
 * "..", absolute names, names twice, directories replaced by links, links that bring data along,
 * names in pax and GNU records, sparse files, devices, all dialects, wrong sums and sizes.
 */
#pragma once

#include <stddef.h>

/* canary: an absolute directory to aim at. The caller frees. */
void *hostile_tar_new(const char *canary, size_t *sizep);
