/* A zip that is mounted: each file's bytes are those that extraction reads, or an error. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/stat.h>

#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/inflate.h"
#include "daemon/engines/archive/zip-scan.h"
#include "daemon/engines/image/archive-volume.h"
#include "daemon/engines/image/volume.h"

#define MAX_FILES 100
#define MAX_READ (4 << 20) /* of a file, or fuzzing is slow */
#define PIECE (300 << 10)  /* of a read: from within a block to within another */
#define CACHE (1 << 20)

static struct seen {
	char path[512];
	uint64_t size;
	uint32_t crc;
	bool failed; /* extraction gives no file of it */
} seen[MAX_FILES];

/* What extraction reads, up to the first member that it refuses. How many files there are. */
static size_t extract(int fd)
{
	_cleanup_(decode_closep) struct decode *d = NULL;
	struct error err = ERROR_INIT;
	const void *data;
	struct member m;
	uint64_t offset;
	size_t n = 0, size;
	int r;

	if (decode_open_zip_file(&d, NULL, fd, &err) < 0)
		return 0;
	while (n < MAX_FILES && decode_next(d, &m, &err) == 1) {
		struct seen *v = &seen[n];
		uint64_t total = 0;

		if (m.type != MEMBER_FILE || strlen(m.path) >= sizeof(v->path))
			continue;
		strcpy(v->path, m.path);
		v->crc = 0;
		while ((r = decode_read(d, &data, &size, &offset, &err)) == 1 && total < MAX_READ) {
			v->crc = inflate_add_crc(v->crc, data, size);
			total += size;
		}
		v->size = total;
		v->failed = r < 0;
		n += r <= 0;
		if (r < 0)
			break;
	}
	return n;
}

/* All of it, by pieces. 0, or the error. */
static int read_file(struct volume *v, uint64_t ref, uint64_t size, uint32_t *crcp)
{
	static uint8_t buf[PIECE];
	struct volume_read read;
	uint32_t crc = 0;
	int r = 0;

	for (uint64_t at = 0; at < size && r == 0;) {
		uint64_t from = at;

		r = v->ops->read(v, ref, at, PIECE, &read);
		if (r < 0)
			break;
		r = v->ops->load(v, &read, buf);
		for (size_t i = 0; i < read.n_extents && r == 0; i++) {
			crc = inflate_add_crc(crc, read.extents[i].data, read.extents[i].size);
			at += read.extents[i].size;
		}
		v->ops->release(v, &read);
		FUZZ_CHECK(r < 0 || at > from);
	}
	*crcp = crc;
	return r;
}

static bool find(struct volume *v, const char *path, struct volume_dirent *ent)
{
	char name[VOLUME_MAX_NAME + 1];

	*ent = (struct volume_dirent){ .ref = v->root, .type = S_IFDIR };
	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		size_t n = strcspn(path, "/");

		if (n > VOLUME_MAX_NAME || ent->type != S_IFDIR)
			return false;
		memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		if (strcmp(name, ".") != 0 && v->ops->find(v, ent->ref, name, ent) != 1)
			return false;
	}
	return true;
}

static bool comes_again(size_t i, size_t n)
{
	for (size_t k = i + 1; k < n; k++)
		if (!strcmp(seen[k].path, seen[i].path))
			return true;
	return false;
}

static void compare(struct volume *v, size_t n)
{
	struct volume_dirent ent;
	struct stat st;
	uint32_t crc;

	for (size_t i = 0; i < n; i++) {
		if (comes_again(i, n) || !find(v, seen[i].path, &ent) || ent.type != S_IFREG)
			continue;
		FUZZ_CHECK(v->ops->stat(v, ent.ref, &st) == 0);
		if (st.st_size > MAX_READ || read_file(v, ent.ref, (uint64_t)st.st_size, &crc) < 0)
			continue;
		FUZZ_CHECK(!seen[i].failed);
		FUZZ_CHECK(seen[i].size == (uint64_t)st.st_size && seen[i].crc == crc);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	_cleanup_(volume_freep) struct volume *v = NULL;
	const struct zip_scan scan = { .fd = fuzz_file(data, size), .size = size };
	struct error err = ERROR_INIT;
	struct stat st;
	int r;

	FUZZ_CHECK(fstat(scan.fd, &st) == 0);
	FUZZ_CHECK(archive_index_new(&x, 0, &err) == 0);
	r = zip_scan(x, &scan, &err);
	fuzz_check_error(r, &err);
	if (r < 0 || archive_index_finish(x, NULL, &err) < 0)
		return 0;
	FUZZ_CHECK(archive_volume_new(&v, x, scan.fd, &st, CACHE) == 0);
	steal_ptr(x);
	compare(v, extract(scan.fd));
	return 0;
}
