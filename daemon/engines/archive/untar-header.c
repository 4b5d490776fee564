#include "daemon/engines/archive/untar-header.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MAX_SIZE (INT64_MAX - 2 * UNTAR_BLOCK)

/* The header of POSIX, with magic and version as one field, as in GNU's header. GNU's has other
 * fields instead of a prefix. */
struct raw {
	unsigned char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type,
		link[100], magic[8], uname[32], gname[32], major[8], minor[8], prefix[155],
		rest[12];
};
_Static_assert(sizeof(struct raw) == UNTAR_BLOCK, "a header is a block");

/* Reads octal digits, with blanks before and blanks and NULs after them. */
static bool read_octal(const unsigned char *p, size_t n, uint64_t *vp)
{
	uint64_t v = 0;
	size_t i = 0, first;

	while (i < n && p[i] == ' ')
		i++;
	for (first = i; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	if (i == first)
		return false;
	while (i < n && (p[i] == ' ' || p[i] == '\0'))
		i++;
	*vp = v;
	return i == n;
}

/* Reads the same, or 0x80 and a positive number to the base 256. */
bool untar_header_read_number(const unsigned char p[static 12], uint64_t *vp)
{
	uint64_t v = 0;

	if (!(p[0] & 0x80))
		return read_octal(p, 12, vp);
	if (p[0] != 0x80 || p[1] || p[2] || p[3] || (p[4] & 0x80))
		return false;
	for (int i = 4; i < 12; i++)
		v = v << 8 | p[i];
	*vp = v;
	return true;
}

/* Reads a time. GNU tar writes one before 1970 as a negative number to the base 256. */
static bool read_time(const unsigned char p[static 12], int64_t *vp)
{
	bool is_negative = !memcmp(p, "\377\377\377\377", 4) && p[4] & 0x80;
	uint64_t v = 0;

	if (!is_negative && !untar_header_read_number(p, &v))
		return false;
	for (int i = 4; i < 12 && is_negative; i++)
		v = v << 8 | p[i];
	*vp = (int64_t)v;
	return true;
}

static bool is_zero(const unsigned char *p, size_t n)
{
	return p[0] == 0 && !memcmp(p, p + 1, n - 1);
}

/* Checks the sum of all bytes, in which the field of the sum counts as blanks. Very old programs
 * added signed bytes. */
static enum untar_kind check_sum(const struct raw *raw)
{
	const unsigned char *p = (const unsigned char *)raw;
	uint32_t sum = 8 * ' ', high = 0;
	uint64_t said;

	for (size_t i = 0; i < UNTAR_BLOCK; i++)
		sum += p[i];
	for (size_t i = 0; i < sizeof(raw->checksum); i++)
		sum -= raw->checksum[i];
	if (!read_octal(raw->checksum, sizeof(raw->checksum), &said))
		return UNTAR_DAMAGED;
	if (said == sum)
		return UNTAR_MEMBER;
	for (size_t i = 0; i < UNTAR_BLOCK; i++)
		high += p[i] >> 7;
	for (size_t i = 0; i < sizeof(raw->checksum); i++)
		high -= raw->checksum[i] >> 7;
	return said + 256 * (uint64_t)high == sum ? UNTAR_FOREIGN : UNTAR_DAMAGED;
}

/* Copies n bytes, or fewer if there is a NUL. */
static size_t copy_text(char *to, const unsigned char *from, size_t n)
{
	const unsigned char *end = memchr(from, '\0', n);

	if (end)
		n = (size_t)(end - from);
	memcpy(to, from, n);
	to[n] = '\0';
	return n;
}

/* Reads the name. Returns false for a dialect in which other fields matter. */
static bool read_name(const struct raw *raw, struct untar_header *h)
{
	size_t n = 0;

	if (!memcmp(raw->magic, "ustar\0", 6)) {
		if (!is_zero(raw->rest, sizeof(raw->rest)))
			return false;
		if (raw->prefix[0]) {
			n = copy_text(h->name, raw->prefix, sizeof(raw->prefix));
			h->name[n++] = '/';
		}
	} else if (memcmp(raw->magic, "ustar  \0", 8) != 0 && !is_zero(raw->magic, 8)) {
		return false;
	}
	copy_text(h->name + n, raw->name, sizeof(raw->name));
	copy_text(h->link, raw->link, sizeof(raw->link));
	return true;
}

static enum untar_kind read_type(const struct raw *raw, enum member_type *typep)
{
	switch (raw->type) {
	case '0':
	case '\0':
	case '7': /* a contiguous file */
		*typep = MEMBER_FILE;
		return UNTAR_MEMBER;
	case '1':
		*typep = MEMBER_HARDLINK;
		return UNTAR_MEMBER;
	case '2':
		*typep = MEMBER_SYMLINK;
		return UNTAR_MEMBER;
	case '5':
		*typep = MEMBER_DIR;
		return UNTAR_MEMBER;
	case 'S':
		*typep = MEMBER_FILE;
		return memcmp(raw->magic, "ustar  \0", 8) ? UNTAR_STAR_SPARSE : UNTAR_OLD_SPARSE;
	case 'L':
		return UNTAR_LONG_NAME;
	case 'K':
		return UNTAR_LONG_LINK;
	case 'x':
		return UNTAR_PAX;
	case 'g':
		return UNTAR_GLOBAL;
	default: /* devices, volumes, types of Solaris */
		return UNTAR_FOREIGN;
	}
}

/* Returns true for octal digits, a number to the base 256, or nothing. */
static bool is_number(const unsigned char *p, size_t n)
{
	size_t i = 0;

	if (p[0] == 0 || p[0] == 0x80 || p[0] == 0xff)
		return true;
	while (i < n && p[i] == ' ')
		i++;
	while (i < n && p[i] >= '0' && p[i] <= '7')
		i++;
	while (i < n && (p[i] == ' ' || p[i] == '\0'))
		i++;
	return i == n;
}

/* libarchive recognizes a tar by these fields of its first header. If it has to read a member that
 * comes after such a block, or a sparse one, that block is the first header that it gets. */
static bool is_recognized(const struct raw *raw)
{
	return is_number(raw->mode, sizeof(raw->mode)) && is_number(raw->uid, sizeof(raw->uid)) &&
	       is_number(raw->gid, sizeof(raw->gid)) && is_number(raw->mtime, sizeof(raw->mtime)) &&
	       is_number(raw->major, sizeof(raw->major)) &&
	       is_number(raw->minor, sizeof(raw->minor));
}

enum untar_kind untar_header_read(const unsigned char block[static UNTAR_BLOCK],
				  struct untar_header *h)
{
	const struct raw *raw = (const struct raw *)block;
	enum untar_kind kind;
	uint64_t mode;

	if (raw->name[0] == '\0' && is_zero(block, UNTAR_BLOCK))
		return UNTAR_ZERO;
	kind = check_sum(raw);
	if (kind != UNTAR_MEMBER)
		return kind;
	kind = read_type(raw, &h->type);
	if (kind == UNTAR_STAR_SPARSE)
		return kind;
	if (kind == UNTAR_FOREIGN || !untar_header_read_number(raw->size, &h->size) ||
	    h->size > MAX_SIZE)
		return UNTAR_FOREIGN;
	if (kind != UNTAR_MEMBER && !is_recognized(raw))
		return UNTAR_FOREIGN;
	if (kind != UNTAR_MEMBER && kind != UNTAR_OLD_SPARSE)
		return kind;
	if (!read_name(raw, h) || !read_octal(raw->mode, sizeof(raw->mode), &mode) ||
	    !read_time(raw->mtime, &h->mtime))
		return UNTAR_FOREIGN;
	h->mode = (mode_t)(mode & 07777);
	return kind;
}

enum untar_kind untar_header_guess(const unsigned char block[static UNTAR_BLOCK], uint64_t *sizep)
{
	const struct raw *raw = (const struct raw *)block;
	enum member_type type;
	enum untar_kind kind = read_type(raw, &type);

	if (raw->name[0] == '\0')
		return UNTAR_ZERO;
	return untar_header_read_number(raw->size, sizep) && *sizep <= MAX_SIZE ? kind
										: UNTAR_FOREIGN;
}
