/*
 * zip-names: the entries of a zip, from its central directory, whose names are used. libarchive
 * takes names from the header before each member, which may have other names, and leaves out the
 * second of two entries that share one member. So the central directory is read here, and each
 * member that libarchive returns gets the name of the entry at its position. libarchive also gets
 * changed header bytes (made by Unix, without the flag for UTF-8), because otherwise it would
 * convert names that are not used, and fail if it cannot.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct error;
struct stage_io;
struct zip_names;

#define ZIP_STORED 0u
#define ZIP_DEFLATED 8u

struct zip_entry {
	const char *name; /* UTF-8 where the zip says what it is, else bytes */
	uint64_t at;	  /* of the member's header */
	uint64_t packed, size;
	uint32_t crc;
	unsigned method;
	bool is_unix;	 /* libarchive knows its mode */
	mode_t dos_mode; /* if not */
};

/* Is there the end of a zip, and a directory where it says, or is it a part of a zip? For what does
 * not begin as a zip. */
bool zip_names_has_list(int fd, uint64_t size);

/* Is there the end of a zip, whatever it says? */
bool zip_names_has_end(int fd, uint64_t size);

/* Of a zip that can't be read. One that is cut off has lost its end: -ENODATA. With its end, it is
 * damaged: -EBADMSG, and err keeps the cause if the list is there. */
int zip_names_find_fault(int fd, uint64_t size, struct error *err);

/* fd stays the caller's and open. io (NULL: none) may cancel it. *sizep: how much of the file
 * belongs to the zip: a long comment and what follows are left out. *zp is NULL where the directory
 * is damaged: libarchive says what is wrong with it. 0, -EINVAL: two entries share one place, or it
 * is a part of a zip; -ENOMEM, -ECANCELED, or why fd can't be read. */
int zip_names_new(struct zip_names **zp, struct stage_io *io, int fd, uint64_t *sizep,
		  struct error *err);
void zip_names_free(struct zip_names *z);
DEFINE_FREEP(struct zip_names, zip_names_free)

/* The i-th entry by position; NULL behind the last. */
const struct zip_entry *zip_names_get(const struct zip_names *z, size_t i);

/* buf has n bytes of the zip from offset on; z may be NULL. */
void zip_names_adapt(const struct zip_names *z, char *buf, size_t n, uint64_t offset);
