/*
 * The list of what must be removed. The first bit of the input says how it is read: as the file
 * itself, or as paths that are recorded, with a crash in the middle of the last line.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/protocol/manifest.h"
#include "common/util/rmtree.h"

#define MAX_PATHS 16

static char path[64];
static const char *paths[MAX_PATHS];
static size_t n_paths, n_released;

int __wrap_rmtree_at(int dirfd, const char *name, const struct rmtree_limits *limits,
		     struct error *err);

/* Nothing is removed here. */
int __wrap_rmtree_at(int dirfd, const char *name, const struct rmtree_limits *limits,
		     struct error *err)
{
	FUZZ_CHECK(dirfd >= 0 && name[0] && !strchr(name, '/'));
	return 0;
}

static int unmount_any(const char *target, struct error *err)
{
	FUZZ_CHECK(target[0] == '/');
	return 0;
}

/* Backwards, each as it was recorded. */
static int unmount_recorded(const char *target, struct error *err)
{
	FUZZ_CHECK(n_released < n_paths && !strcmp(paths[n_paths - 1 - n_released], target));
	n_released++;
	return 0;
}

static void remove_file(void)
{
	unlink(path);
}

static void read_file(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct stat st;
	int r;

	fuzz_write_file(path, data, size);
	r = manifest_release(path, unmount_any, &err);
	fuzz_check_error(r, &err);
	FUZZ_CHECK(stat(path, &st) == 0 && (r < 0 || st.st_size == 0));
}

static void record(char *text, size_t size, unsigned torn)
{
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	off_t ends[MAX_PATHS], size_left;
	struct stat st = { 0 };

	n_paths = n_released = 0;
	fuzz_write_file(path, "", 0);
	FUZZ_CHECK(manifest_open(&m, path, NULL) == 0);
	for (char *p = text; p < text + size && n_paths < MAX_PATHS; p += strlen(p) + 1) {
		if (*p != '/')
			continue;
		FUZZ_CHECK(manifest_add(m, MANIFEST_MOUNT, p, NULL) == 0 && stat(path, &st) == 0);
		ends[n_paths] = st.st_size;
		paths[n_paths++] = p;
	}
	size_left = st.st_size > torn ? st.st_size - torn : 0;
	while (n_paths > 0 && ends[n_paths - 1] > size_left)
		n_paths--;
	FUZZ_CHECK(truncate(path, size_left) == 0);
	FUZZ_CHECK(manifest_release(path, unmount_recorded, NULL) == 0 && n_released == n_paths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);

	if (size == 0)
		return 0;
	if (!path[0]) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-manifest-%d", getpid());
		atexit(remove_file);
	}
	if (data[0] & 1)
		record(text + 1, size - 1, data[0] >> 1);
	else
		read_file(data + 1, size - 1);
	return 0;
}
