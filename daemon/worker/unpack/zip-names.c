/*
 * The list is found where libarchive finds it, so that both speak of the same one: by the last
 * "PK\5\6" in the last 16 KiB, and the record of 64 bits in front of it, if there is one.
 *
 * A name with both slashes is left alone by libarchive, and by Info-ZIP's unzip, whose rule this
 * is: DOS's names alone (0) are changed.
 */
#include "daemon/worker/unpack/zip-names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAIL_SIZE (16u << 10)
#define END_SIZE 22
#define LOCATOR_SIZE 20
#define END64_SIZE 56
#define ENTRY_SIZE 46
#define MAX_ENTRY (ENTRY_SIZE + 3 * 65535)
#define BUFFER_SIZE (256u << 10)
#define SYSTEM_AT 5 /* in an entry who made it; libarchive takes a member's for that, too */
#define SYSTEM_DOS 0
#define SYSTEM_UNIX 3

_Static_assert(MAX_ENTRY <= BUFFER_SIZE, "an entry is looked at as a whole");

struct zip_names {
	uint64_t *at; /* of the bytes in front of members */
	size_t n, room;
};

/* Where the list is, and how far all offsets are off. */
struct list {
	uint64_t from, end, shift;
};

struct reader {
	int fd;
	int error;     /* 0, or -errno of the first that failed */
	uint64_t from; /* of what is in buf */
	size_t n;
	unsigned char *buf;
};

static uint64_t le(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

/* As many bytes as there are. */
static size_t read_some(struct reader *r, void *buf, size_t size, uint64_t offset)
{
	size_t n = 0;
	ssize_t got;

	while (n < size && !r->error && offset <= INT64_MAX - size) {
		got = pread(r->fd, (char *)buf + n, size - n, (off_t)(offset + n));
		if (got < 0 && errno != EINTR)
			r->error = -errno;
		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	return n;
}

static bool read_at(struct reader *r, void *buf, size_t size, uint64_t offset)
{
	return read_some(r, buf, size, offset) == size;
}

static bool take_end64(struct reader *r, const unsigned char *locator, uint64_t size, struct list *l)
{
	unsigned char end[END64_SIZE];

	if (!read_at(r, end, sizeof(end), le(locator + 8, 8)) || memcmp(end, "PK\6\6", 4) != 0)
		return false;
	l->from = le(end + 48, 8);
	l->shift = 0;
	return !__builtin_add_overflow(l->from, le(end + 40, 8), &l->end) && l->end <= size;
}

static bool find_list(struct reader *r, uint64_t size, struct list *l)
{
	unsigned char tail[TAIL_SIZE];
	size_t n = size < TAIL_SIZE ? (size_t)size : TAIL_SIZE, i;

	if (n < END_SIZE || !read_at(r, tail, n, size - n))
		return false;
	for (i = n - END_SIZE; i > 0 && memcmp(tail + i, "PK\5\6", 4) != 0; i--)
		;
	if (i == 0)
		return false;
	if (i >= LOCATOR_SIZE && !memcmp(tail + i - LOCATOR_SIZE, "PK\6\7", 4))
		return take_end64(r, tail + i - LOCATOR_SIZE, size, l);
	l->end = size - n + i;
	if (le(tail + i + 12, 4) + le(tail + i + 16, 4) > l->end)
		return false;
	l->from = l->end - le(tail + i + 12, 4);
	l->shift = l->from - le(tail + i + 16, 4);
	return true;
}

/* n bytes from offset on, lent until the next call. */
static const unsigned char *look_at(struct reader *r, uint64_t offset, size_t n)
{
	if (offset < r->from || offset + n > r->from + r->n) {
		r->n = read_some(r, r->buf, BUFFER_SIZE, offset);
		r->from = offset;
	}
	return n <= r->n - (size_t)(offset - r->from) ? r->buf + (offset - r->from) : NULL;
}

/* Where the member is that an entry speaks of; what is too large for it stands behind the name. */
static bool get_offset(const unsigned char *entry, uint64_t *offsetp)
{
	const unsigned char *p = entry + ENTRY_SIZE + le(entry + 28, 2), *field;
	const unsigned char *end = p + le(entry + 30, 2);

	*offsetp = le(entry + 42, 4);
	if (*offsetp != UINT32_MAX)
		return true;
	while (end - p >= 4 && (size_t)(end - p) - 4 >= le(p + 2, 2)) {
		field = p + 4;
		p = field + le(p + 2, 2);
		if (le(field - 4, 2) != 1)
			continue;
		field += le(entry + 24, 4) == UINT32_MAX ? 8 : 0;
		field += le(entry + 20, 4) == UINT32_MAX ? 8 : 0;
		if (p - field < 8)
			return false;
		*offsetp = le(field, 8);
		return true;
	}
	return false;
}

static int add(struct zip_names *z, uint64_t at)
{
	size_t room = z->room ? 2 * z->room : 64;
	uint64_t *p;

	if (z->n == z->room) {
		p = reallocarray(z->at, room, sizeof(*p));
		if (!p)
			return -ENOMEM;
		z->at = p;
		z->room = room;
	}
	z->at[z->n++] = at;
	return 0;
}

static int take_entry(struct zip_names *z, const unsigned char *entry, const struct list *l,
		      struct reader *r)
{
	const unsigned char *name = entry + ENTRY_SIZE;
	size_t n = le(entry + 28, 2);
	char magic[4];
	uint64_t at;

	if (entry[SYSTEM_AT] == SYSTEM_DOS || !memchr(name, '\\', n) || memchr(name, '/', n) ||
	    !get_offset(entry, &at) || __builtin_add_overflow(at, l->shift, &at) ||
	    at > INT64_MAX - SYSTEM_AT || !read_at(r, magic, sizeof(magic), at) ||
	    memcmp(magic, "PK\3\4", 4) != 0)
		return 0;
	return add(z, at + SYSTEM_AT);
}

static int read_list(struct zip_names *z, struct reader *r, const struct list *l)
{
	const unsigned char *entry;
	uint64_t at = l->from;
	size_t n;
	int res = 0;

	while (res == 0 && at < l->end && (entry = look_at(r, at, ENTRY_SIZE)) &&
	       !memcmp(entry, "PK\1\2", 4)) {
		n = ENTRY_SIZE + le(entry + 28, 2) + le(entry + 30, 2) + le(entry + 32, 2);
		entry = look_at(r, at, n);
		if (!entry)
			break;
		res = take_entry(z, entry, l, r);
		at += n;
	}
	return res;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int zip_names_new(struct zip_names **zp, int fd, uint64_t size)
{
	_cleanup_(zip_names_freep) struct zip_names *z = calloc(1, sizeof(*z));
	_cleanup_(freep) unsigned char *buf = malloc(BUFFER_SIZE);
	struct reader reader = { .fd = fd, .buf = buf };
	struct list list;
	int r = 0;

	*zp = NULL;
	if (!z || !buf)
		return -ENOMEM;
	if (find_list(&reader, size, &list))
		r = read_list(z, &reader, &list);
	if (reader.error)
		return reader.error;
	if (r < 0 || z->n == 0)
		return r;
	qsort(z->at, z->n, sizeof(*z->at), compare);
	*zp = steal_ptr(z);
	return 0;
}

void zip_names_free(struct zip_names *z)
{
	if (!z)
		return;
	free(z->at);
	free(z);
}

void zip_names_keep(const struct zip_names *z, char *buf, size_t n, uint64_t offset)
{
	size_t low = 0, high = z ? z->n : 0, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (z->at[middle] < offset)
			low = middle + 1;
		else
			high = middle;
	}
	for (; z && low < z->n && z->at[low] - offset < n; low++)
		buf[z->at[low] - offset] = SYSTEM_UNIX;
}
