/*
 * The end record of the directory is the last "PK\5\6" in the last bytes of the file, in which a
 * comment and the padding of a tape may follow. The zip64 record, if there is one, is before it.
 * libarchive searches only the last 16 KiB, so it gets a view of the file that ends after the
 * record.
 */
#include "daemon/engines/archive/zip-names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/le.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/archive/zip-entry-name.h"

#define TAIL_SIZE (128u << 10)
#define END_SIZE 22
#define LOCATOR_SIZE 20
#define END64_SIZE 56
#define ENTRY_SIZE 46
#define MAX_ENTRY (ENTRY_SIZE + 3 * 65535)
#define BUFFER_SIZE (256u << 10)
#define MEMBER_SIZE 30
/* Positions in a member's header at which libarchive looks for the system that made it, and for the
 * high byte of the flags. */
#define SYSTEM_AT 5
#define SYSTEM_DOS 0
#define SYSTEM_UNIX 3
#define DOS_READ_ONLY 1
#define DOS_DIRECTORY 16
#define FLAGS_AT 7
#define FLAG_UTF8 0x08

_Static_assert(MAX_ENTRY <= BUFFER_SIZE, "an entry is looked at as a whole");

/* While entries are added, name is an offset in text, because text may move. */
struct zip_names {
	struct zip_entry *v;
	size_t n, room;
	char *text;
	size_t n_text, text_room;
	int fd;
};

/* The place of the central directory, and the difference between real offsets and those in the
 * zip. */
struct list {
	uint64_t from, end, shift;
	uint64_t size;	  /* size of the file, up to the end of the zip */
	uint64_t n_parts; /* more than one: made by zip -s, and this is the last file */
};

struct reader {
	struct stage_io *io;
	int fd;
	int error;     /* 0, or -errno of the first failed read */
	uint64_t from; /* offset of the bytes in buf */
	size_t n;
	unsigned char *buf;
};

/* Reads size bytes, or fewer at the end of the file. Returns their number. */
static size_t read_some(struct reader *r, void *buf, size_t size, uint64_t offset)
{
	ssize_t n;

	if (r->error || offset > INT64_MAX - size)
		return 0;
	n = fd_pread_all(r->fd, buf, size, offset);
	if (n < 0)
		r->error = (int)n;
	return n < 0 ? 0 : (size_t)n;
}

static bool read_at(struct reader *r, void *buf, size_t size, uint64_t offset)
{
	return read_some(r, buf, size, offset) == size;
}

/* Returns true if the central directory begins with an entry, or is empty. */
static bool has_entry(struct reader *r, const struct list *l)
{
	unsigned char magic[4];

	return l->from == l->end ||
	       (read_at(r, magic, sizeof(magic), l->from) && !memcmp(magic, "PK\1\2", 4));
}

/* Reads the end record of zip64. The last name in the directory may look like its locator, so the
 * place is checked. */
static bool take_end64(struct reader *r, const unsigned char *locator, uint64_t size,
		       struct list *l)
{
	unsigned char end[END64_SIZE];

	if (!read_at(r, end, sizeof(end), le_read(locator + 8, 8)) || memcmp(end, "PK\6\6", 4) != 0)
		return false;
	l->from = le_read(end + 48, 8);
	l->shift = 0;
	return !__builtin_add_overflow(l->from, le_read(end + 40, 8), &l->end) && l->end <= size &&
	       has_entry(r, l);
}

/* Reads the end record at tail[i]. at: offset of the first byte of tail in the file. */
static bool take_end(struct reader *r, const unsigned char *tail, size_t i, uint64_t at,
		     struct list *l)
{
	const unsigned char *end = tail + i;

	l->size = at + i + END_SIZE;
	if (i >= LOCATOR_SIZE && !memcmp(end - LOCATOR_SIZE, "PK\6\7", 4) &&
	    take_end64(r, end - LOCATOR_SIZE, l->size, l))
		return true;
	l->end = at + i;
	if (le_read(end + 12, 4) + le_read(end + 16, 4) > l->end)
		return false;
	l->from = l->end - le_read(end + 12, 4);
	l->shift = l->from - le_read(end + 16, 4);
	return has_entry(r, l);
}

/* Returns the number of parts in the last end record, else 1. In this record, parts count from
 * 0. */
static uint64_t count_parts(const unsigned char *tail, size_t i, size_t n)
{
	const unsigned char *end = tail + i;
	uint64_t part = le_read(end + 4, 2);

	if (END_SIZE + le_read(end + 20, 2) != n - i)
		return 1;
	if (part == UINT16_MAX && i >= LOCATOR_SIZE && !memcmp(end - LOCATOR_SIZE, "PK\6\7", 4))
		return le_read(end - LOCATOR_SIZE + 16, 4);
	return part + 1;
}

/* Searches for the end record from the file's end. A comment may contain the same bytes, so the
 * place of the directory is checked. */
static bool find_list(struct reader *r, uint64_t size, struct list *l)
{
	size_t n = size < TAIL_SIZE ? (size_t)size : TAIL_SIZE, i;
	_cleanup_(freep) unsigned char *tail = malloc(n + 1);

	if (!tail)
		r->error = -ENOMEM;
	if (!tail || n < END_SIZE || !read_at(r, tail, n, size - n))
		return false;
	for (i = n - END_SIZE + 1; i-- > 0;) {
		if (memcmp(tail + i, "PK\5\6", 4) != 0)
			continue;
		if (l->n_parts <= 1)
			l->n_parts = count_parts(tail, i, n);
		if (take_end(r, tail, i, size - n, l))
			return true;
	}
	return false;
}

/* Returns n bytes from offset on, lent until the next call. */
static const unsigned char *look_at(struct reader *r, uint64_t offset, size_t n)
{
	if (offset < r->from || offset + n > r->from + r->n) {
		if (stage_io_is_cancelled(r->io)) {
			r->error = -ECANCELED;
			return NULL;
		}
		r->n = read_some(r, r->buf, BUFFER_SIZE, offset);
		r->from = offset;
	}
	return n <= r->n - (size_t)(offset - r->from) ? r->buf + (offset - r->from) : NULL;
}

/* Takes the next 64-bit number, if the field in the entry says that there is one. */
static bool take_large(uint64_t *vp, const unsigned char **fieldp, const unsigned char *end)
{
	if (*vp != UINT32_MAX)
		return true;
	if (end - *fieldp < 8)
		return false;
	*vp = le_read(*fieldp, 8);
	*fieldp += 8;
	return true;
}

/* Reads the place and the sizes of an entry's member. Large numbers are in an extra field after the
 * name. Returns false if such a number is missing. */
static bool get_numbers(const unsigned char *entry, struct zip_entry *e)
{
	const unsigned char *p = entry + ENTRY_SIZE + le_read(entry + 28, 2), *field;
	const unsigned char *end = p + le_read(entry + 30, 2);

	e->packed = le_read(entry + 20, 4);
	e->size = le_read(entry + 24, 4);
	e->at = le_read(entry + 42, 4);
	while (end - p >= 4 && (size_t)(end - p) - 4 >= le_read(p + 2, 2)) {
		field = p + 4;
		p = field + le_read(p + 2, 2);
		if (le_read(field - 4, 2) == 1)
			return take_large(&e->size, &field, p) &&
			       take_large(&e->packed, &field, p) && take_large(&e->at, &field, p);
	}
	return true;
}

/* Makes room for more bytes or entries: for a quarter more, because all memory counts, used or not
 * (data-rlimit.h). */
static void *grow(void *v, size_t *roomp, size_t need, size_t size)
{
	size_t room = *roomp ? *roomp : 64;
	void *more;

	while (room < need)
		room += room / 4;
	if (room == *roomp)
		return v;
	more = reallocarray(v, room, size);
	if (more)
		*roomp = room;
	return more;
}

static int zip_names_add(struct zip_names *z, const struct zip_entry *e, const char *name, size_t n)
{
	void *v = grow(z->v, &z->room, z->n + 1, sizeof(*z->v)), *text;

	if (!v)
		return -ENOMEM;
	z->v = v;
	text = grow(z->text, &z->text_room, z->n_text + n + 1, 1);
	if (!text)
		return -ENOMEM;
	z->text = text;
	memcpy(z->text + z->n_text, name, n + 1);
	z->v[z->n] = *e;
	z->v[z->n++].name = (const char *)(uintptr_t)z->n_text;
	z->n_text += n + 1;
	return 0;
}

/* Returns the mode that unzip sets with the usual umask. Programs of PKWARE call themselves DOS
 * also on Unix. So the Unix mode is used if its owner may do what the DOS bits allow. */
static mode_t get_dos_mode(const unsigned char *entry, const char *name, size_t n)
{
	const bool is_dir = entry[38] & DOS_DIRECTORY || (n > 0 && name[n - 1] == '/');
	const mode_t mode = le_read(entry + 40, 2) & 0777;
	mode_t all = is_dir ? 0755 : 0644;

	if (entry[38] & DOS_READ_ONLY)
		all &= 0555;
	return entry[5] == SYSTEM_DOS && (mode & 0700) == (all & 0700) ? mode : all;
}

static int take_entry(struct zip_names *z, const unsigned char *entry, const struct list *l,
		      char *buf)
{
	struct zip_entry e = { .method = (unsigned)le_read(entry + 10, 2),
			       .crc = (uint32_t)le_read(entry + 16, 4),
			       .is_unix = entry[5] == SYSTEM_UNIX && le_read(entry + 40, 2) != 0 };
	const struct zip_entry_name t = {
		.name = entry + ENTRY_SIZE,
		.n_name = le_read(entry + 28, 2),
		.extra = entry + ENTRY_SIZE + le_read(entry + 28, 2),
		.n_extra = le_read(entry + 30, 2),
		.flags = (unsigned)le_read(entry + 8, 2),
		.version = entry[4],
		.system = entry[5],
	};
	size_t n;

	if (!get_numbers(entry, &e) || __builtin_add_overflow(e.at, l->shift, &e.at) ||
	    e.at > INT64_MAX - MEMBER_SIZE)
		return -EBADMSG;
	n = zip_entry_name_read(&t, buf);
	e.dos_mode = get_dos_mode(entry, buf, n);
	return zip_names_add(z, &e, buf, n);
}

static int read_list(struct zip_names *z, struct reader *r, const struct list *l)
{
	_cleanup_(freep) char *name = malloc(ZIP_ENTRY_NAME_SIZE);
	const unsigned char *entry;
	uint64_t at = l->from;
	size_t n;
	int res = name ? 0 : -ENOMEM;

	while (res == 0 && at < l->end && (entry = look_at(r, at, ENTRY_SIZE)) &&
	       !memcmp(entry, "PK\1\2", 4)) {
		n = ENTRY_SIZE + le_read(entry + 28, 2) + le_read(entry + 30, 2) +
		    le_read(entry + 32, 2);
		entry = look_at(r, at, n);
		if (!entry)
			break;
		res = take_entry(z, entry, l, name);
		at += n;
	}
	return res;
}

static int compare(const void *a, const void *b)
{
	const struct zip_entry *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

bool zip_names_has_list(int fd, uint64_t size)
{
	struct reader reader = { .fd = fd };
	struct list list = { 0 };

	if (find_list(&reader, size, &list) && list.from < list.end)
		return !reader.error;
	return list.n_parts > 1 && !reader.error;
}

bool zip_names_has_end(int fd, uint64_t size)
{
	struct reader reader = { .fd = fd };
	struct list list = { 0 };

	find_list(&reader, size, &list);
	return list.size > 0;
}

int zip_names_find_fault(int fd, uint64_t size, struct error *err)
{
	if (!zip_names_has_end(fd, size))
		return error_set(err, ENODATA, "zip without the list of its files at the end");
	if (!zip_names_has_list(fd, size))
		return error_set(err, EBADMSG, "the " DAMAGE_ZIP_LIST " is not where its end says");
	if (err && !strstr(err->text, DAMAGE_ZIP_LIST))
		error_prefix(err, "the " DAMAGE_ZIP_LIST);
	return -EBADMSG;
}

/* Checks that members do not have the same place: each has a header of MEMBER_SIZE bytes. */
static int check_places(const struct zip_names *z, struct error *err)
{
	for (size_t i = 1; i < z->n; i++) {
		const struct zip_entry *a = &z->v[i - 1], *b = &z->v[i];

		if (b->at - a->at >= MEMBER_SIZE && b->at - a->at - MEMBER_SIZE >= a->packed)
			continue;
		error_set(err, EINVAL, "%.200s and %.200s of the zip share one place in it",
			  a->name, b->name);
		return error_set_hint(err, -EINVAL, "make the archive again, by zip -r");
	}
	return 0;
}

static int refuse_parts(uint64_t n_parts, struct error *err)
{
	error_set(err, EINVAL, "the zip was made in %llu parts (.z01, .z02, ...)",
		  (unsigned long long)n_parts);
	return error_set_hint(err, -EINVAL,
			      "join them elsewhere: zip -s 0 FILE.zip --out NEW.zip; if unzip -t "
			      "NEW.zip finds errors: cat FILE.z[0-9]* FILE.zip | bsdtar -xf -");
}

/* Called after all entries were added: makes the names pointers. */
static void settle(struct zip_names *z)
{
	for (size_t i = 0; i < z->n; i++)
		z->v[i].name = z->text + (uintptr_t)z->v[i].name;
	if (z->n > 0)
		qsort(z->v, z->n, sizeof(*z->v), compare);
}

int zip_names_new(struct zip_names **zp, struct stage_io *io, int fd, uint64_t *sizep,
		  struct error *err)
{
	_cleanup_(zip_names_freep) struct zip_names *z = calloc(1, sizeof(*z));
	_cleanup_(freep) unsigned char *buf = malloc(BUFFER_SIZE);
	struct reader reader = { .io = io, .fd = fd, .buf = buf };
	struct list list = { 0 };
	bool found;
	int r = 0;

	*zp = NULL;
	if (!z || !buf)
		return error_set(err, ENOMEM, "out of memory");
	z->fd = fd;
	found = find_list(&reader, *sizep, &list);
	if (list.n_parts > 1 && !reader.error)
		return refuse_parts(list.n_parts, err);
	if (found)
		r = read_list(z, &reader, &list);
	if (reader.error == -ECANCELED)
		return stage_io_check(io, err);
	if (reader.error)
		return error_errno(err, -reader.error, "read the source");
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (!found || r < 0)
		return 0;
	settle(z);
	r = check_places(z, err);
	if (r < 0)
		return r;
	*sizep = list.size;
	*zp = steal_ptr(z);
	return 0;
}

void zip_names_free(struct zip_names *z)
{
	if (!z)
		return;
	free(z->v);
	free(z->text);
	free(z);
}

const struct zip_entry *zip_names_get(const struct zip_names *z, size_t i)
{
	return i < z->n ? &z->v[i] : NULL;
}

/* Returns true if there is a member at this offset. An entry with a wrong place must not change
 * other bytes. */
static bool is_member(const struct zip_names *z, uint64_t at)
{
	char magic[4];

	return pread(z->fd, magic, sizeof(magic), (off_t)at) == sizeof(magic) &&
	       !memcmp(magic, "PK\3\4", 4);
}

/* Returns the byte at `at` in the file, if it is in buf. */
static char *find_byte(char *buf, size_t n, uint64_t offset, uint64_t at)
{
	return at >= offset && at - offset < n ? buf + (at - offset) : NULL;
}

void zip_names_adapt(const struct zip_names *z, char *buf, size_t n, uint64_t offset)
{
	uint64_t first = offset > FLAGS_AT ? offset - FLAGS_AT : 0;
	size_t low = 0, high = z ? z->n : 0, middle;
	char *p;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (z->v[middle].at < first)
			low = middle + 1;
		else
			high = middle;
	}
	for (; z && low < z->n && (z->v[low].at < offset || z->v[low].at - offset < n); low++) {
		bool inside = z->v[low].at >= offset && n - (z->v[low].at - offset) >= 4;

		if (inside ? memcmp(buf + (z->v[low].at - offset), "PK\3\4", 4) != 0
			   : !is_member(z, z->v[low].at))
			continue;
		if ((p = find_byte(buf, n, offset, z->v[low].at + SYSTEM_AT)))
			*p = SYSTEM_UNIX;
		if ((p = find_byte(buf, n, offset, z->v[low].at + FLAGS_AT)))
			*p = (char)(*p & ~FLAG_UTF8);
	}
}
