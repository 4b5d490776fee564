#include "client/tar-writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/fd.h"

#define BUFFER_SIZE (1024 * 1024)
#define MAX_OCTAL_SIZE 077777777777ULL

struct header { /* POSIX.1-1988 ustar */
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is a block");

struct tar_writer {
	int fd;
	uint64_t left; /* bytes of the current file that are still missing */
	uint64_t size; /* of the current file */
	size_t n;
	char buffer[BUFFER_SIZE];
};

int tar_writer_new(struct tar_writer **wp, int fd)
{
	struct tar_writer *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->left = w->size = 0;
	w->n = 0;
	*wp = w;
	return 0;
}

void tar_writer_free(struct tar_writer *w)
{
	free(w);
}

static int flush(struct tar_writer *w)
{
	int r = fd_write_all(w->fd, w->buffer, w->n);

	if (r < 0)
		return r;
	w->n = 0;
	return 0;
}

static int put(struct tar_writer *w, const void *data, size_t size)
{
	const char *p = data;
	int r;

	while (size > 0) {
		size_t n = BUFFER_SIZE - w->n < size ? BUFFER_SIZE - w->n : size;

		memcpy(w->buffer + w->n, p, n);
		w->n += n;
		p += n;
		size -= n;
		if (w->n == BUFFER_SIZE) {
			r = flush(w);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int put_padding(struct tar_writer *w, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	return put(w, zeros, (size_t)(-size & (TAR_BLOCK - 1)));
}

/* Finds the "/" that separates prefix and name in a ustar header. Returns NULL if the path does not
 * fit, or path itself if it fits without a prefix. */
static const char *find_cut(const char *path)
{
	size_t size = strlen(path);
	const char *slash;

	if (size <= 100)
		return path;
	for (slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		if (slash - path > 155)
			return NULL;
		if (slash > path && size - (size_t)(slash - path) - 1 <= 100 && slash[1])
			return slash + 1;
	}
	return NULL;
}

/* Writes a number with leading zeros and a NUL. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*llo", (int)(size - 1), (unsigned long long)value);
	memcpy(field, text, size);
}

/* The checksum is the sum of the bytes, with blanks in its place. */
static void put_checksum(struct header *h)
{
	const unsigned char *bytes = (const unsigned char *)h;
	unsigned sum = 0;

	memset(h->checksum, ' ', sizeof(h->checksum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += bytes[i];
	put_octal(h->checksum, sizeof(h->checksum) - 1, sum);
	h->checksum[7] = ' ';
}

static bool has_octal_time(time_t mtime)
{
	return mtime >= 0 && (uint64_t)mtime <= MAX_OCTAL_SIZE;
}

static int put_header(struct tar_writer *w, const char *prefix, size_t n_prefix, const char *name,
		      char type, unsigned mode, uint64_t size, time_t mtime)
{
	struct header h = { .type = type, .magic = "ustar", .version = { '0', '0' } };
	size_t n_name = strlen(name);

	memcpy(h.name, name, n_name < sizeof(h.name) ? n_name : sizeof(h.name));
	memcpy(h.prefix, prefix, n_prefix);
	put_octal(h.mode, sizeof(h.mode), mode & 0777);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size > MAX_OCTAL_SIZE ? 0 : size);
	put_octal(h.mtime, sizeof(h.mtime), has_octal_time(mtime) ? (uint64_t)mtime : 0);
	put_octal(h.major, sizeof(h.major), 0);
	put_octal(h.minor, sizeof(h.minor), 0);
	put_checksum(&h);
	return put(w, &h, sizeof(h));
}

/* Writes "LEN key=value\n"; LEN includes its own digits. Returns the size. buf may be NULL. */
static size_t pax_record(char *buf, size_t buf_size, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3, size = body + 1;
	char digits[24];

	while (body + (size_t)snprintf(digits, sizeof(digits), "%zu", size) != size)
		size = body + strlen(digits);
	if (buf)
		snprintf(buf, buf_size, "%zu %s=%s\n", size, key, value);
	return size;
}

/* Writes the records of an entry. Returns their size. buf may be NULL. */
static size_t pax_records(char *buf, size_t buf_size, const char *path, uint64_t size, time_t mtime)
{
	char text[24];
	size_t n = 0;

	if (!find_cut(path))
		n += pax_record(buf, buf_size, "path", path);
	if (size > MAX_OCTAL_SIZE) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
		n += pax_record(buf ? buf + n : NULL, buf_size - n, "size", text);
	}
	if (!has_octal_time(mtime)) {
		snprintf(text, sizeof(text), "%lld", (long long)mtime);
		n += pax_record(buf ? buf + n : NULL, buf_size - n, "mtime", text);
	}
	return n;
}

static int put_pax(struct tar_writer *w, const char *path, uint64_t size, time_t mtime)
{
	size_t n = pax_records(NULL, SIZE_MAX, path, size, mtime);
	_cleanup_(freep) char *data = NULL;
	int r;

	if (n == 0)
		return 0;
	data = malloc(n + 1);
	if (!data)
		return -ENOMEM;
	pax_records(data, n + 1, path, size, mtime);
	r = put_header(w, "", 0, "././@PaxHeader", 'x', 0644, n, mtime);
	if (r == 0)
		r = put(w, data, n);
	return r < 0 ? r : put_padding(w, n);
}

static int put_entry(struct tar_writer *w, const char *path, char type, unsigned mode,
		     uint64_t size, time_t mtime)
{
	const char *cut = find_cut(path), *name = cut ? cut : path;
	size_t n_prefix = cut > path ? (size_t)(cut - path) - 1 : 0;
	int r;

	if (w->left > 0)
		return -EINVAL;
	r = put_pax(w, path, size, mtime);
	if (r == 0)
		r = put_header(w, path, cut ? n_prefix : 0, name, type, mode, size, mtime);
	if (r < 0)
		return r;
	w->left = w->size = size;
	return 0;
}

int tar_writer_begin(struct tar_writer *w, const char *path, unsigned mode, uint64_t size,
		     time_t mtime)
{
	return put_entry(w, path, '0', mode, size, mtime);
}

int tar_writer_add_dir(struct tar_writer *w, const char *path, unsigned mode, time_t mtime)
{
	return put_entry(w, path, '5', mode, 0, mtime);
}

int tar_writer_put(struct tar_writer *w, const void *data, size_t size)
{
	int r;

	if (size > w->left)
		return -EFBIG;
	r = put(w, data, size);
	if (r < 0)
		return r;
	w->left -= size;
	return w->left == 0 ? put_padding(w, w->size) : 0;
}

int tar_writer_end(struct tar_writer *w)
{
	static const char zeros[2 * TAR_BLOCK];
	int r;

	if (w->left > 0)
		return -EINVAL;
	r = put(w, zeros, sizeof(zeros));
	return r < 0 ? r : flush(w);
}

uint64_t tar_writer_get_cost(const char *path, uint64_t size, time_t mtime)
{
	size_t pax = pax_records(NULL, SIZE_MAX, path, size, mtime);
	uint64_t cost = TAR_BLOCK + ((size + TAR_BLOCK - 1) & ~(uint64_t)(TAR_BLOCK - 1));

	if (pax > 0)
		cost += TAR_BLOCK + ((pax + TAR_BLOCK - 1) & ~(size_t)(TAR_BLOCK - 1));
	return cost;
}
