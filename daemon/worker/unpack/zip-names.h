/*
 * zip-names: libarchive makes slashes of the backslashes in a zip's name that has no slash, as it
 * should where DOS made it. Who made it stands in the list at the zip's end, but libarchive looks
 * for it in front of the member, where it never is. Here the list is read, and put into what
 * libarchive reads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

struct zip_names;

/* Of a list that is damaged nothing is kept: libarchive says what is wrong with it. *zp is NULL
 * where no name needs it. 0, -ENOMEM, or why fd can't be read. */
int zip_names_new(struct zip_names **zp, int fd, uint64_t size);
void zip_names_free(struct zip_names *z);
DEFINE_FREEP(struct zip_names, zip_names_free)

/* buf has n bytes of the zip from offset on; z may be NULL. */
void zip_names_keep(const struct zip_names *z, char *buf, size_t n, uint64_t offset);
