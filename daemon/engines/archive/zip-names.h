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
	const char *name; /* UTF-8 if the zip names its encoding; otherwise bytes */
	uint64_t at;	  /* offset of the member's header */
	uint64_t packed, size;
	uint32_t crc;
	unsigned method;
	bool is_unix;	 /* libarchive knows the mode */
	mode_t dos_mode; /* the mode if libarchive does not know it */
};

/* Returns true if the file has the end record of a zip and a central directory where this record
 * says, or is a part of a multi-part zip. For files that do not begin as a zip. */
bool zip_names_has_list(int fd, uint64_t size);

/* Returns true if the file has the end record of a zip, whatever it contains. */
bool zip_names_has_end(int fd, uint64_t size);

/* Finds the reason why a zip cannot be read. Returns -ENODATA if the end record is missing, because
 * the zip is cut off. Otherwise returns -EBADMSG: it is damaged; err keeps the cause if the central
 * directory exists. */
int zip_names_find_fault(int fd, uint64_t size, struct error *err);

/* Reads the central directory. fd still belongs to the caller and must stay open. io (NULL: none)
 * may cancel this. *sizep: size of the zip, without a long comment and following data. *zp is NULL
 * if the directory is damaged; then libarchive reports the damage. Returns 0 or -errno. -EINVAL:
 * two entries have the same place, or this is a part of a multi-part zip; -ENOMEM; -ECANCELED; or
 * why fd cannot be read. */
int zip_names_new(struct zip_names **zp, struct stage_io *io, int fd, uint64_t *sizep,
		  struct error *err);
void zip_names_free(struct zip_names *z);
DEFINE_FREEP(struct zip_names, zip_names_free)

/* Returns the i-th entry by position; NULL after the last one. */
const struct zip_entry *zip_names_get(const struct zip_names *z, size_t i);

/* Changes header bytes (see above) of members in buf, which has n bytes of the zip from offset on.
 * z may be NULL. */
void zip_names_adapt(const struct zip_names *z, char *buf, size_t n, uint64_t offset);
