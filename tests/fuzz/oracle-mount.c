/*
 * Hostile and damaged tars and zips, each through the real stager and through the server of mounts,
 * request by request as the kernel would ask.
 *
 *	oracle-mount DIRECTORY ARCHIVES [SEED]
 *
 * DIRECTORY has sound ones (tests/fuzz/seeds: mount/). A mount that is ready shows the tree of
 * extraction, and what extraction refuses is refused, or a reader gets an error. What is damaged
 * inside a member of a zip is found by its readers; what they read without an error is what the
 * sound one has. Of damage to a tar that can be told (damaged-input.h) nothing is shown but the
 * tree of the sound one. An archive that changes while it is mounted gives its readers errors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "common/util/cleanup.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/engines/archive/zip-scan.h"
#include "daemon/engines/image/archive-volume.h"
#include "daemon/engines/image/volume.h"
#include "tests/fuzz/damaged-input.h"
#include "tests/fuzz/hostile-tar.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/served-tree.h"

#define MAX_SOUND 64
#define CACHE (1 << 20)

/* What is tried. */
struct input {
	const struct sound *from; /* NULL: a hostile one */
	unsigned char *data;
	size_t size;
	enum facts_format format;
	bool nested;
	unsigned long number;
};

static struct oracle o;
static struct sound sounds[MAX_SOUND];
static struct tree sound_trees[MAX_SOUND];
static size_t n_sounds;
static time_t start;
static unsigned long n_ready, n_refused, n_foreign, n_maps, n_limited, n_failed, n_changed,
	n_untold;

/* ---- what is extracted ---- */

static uLong sum_file(int dirfd, const char *name, off_t size)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	static unsigned char buf[TREE_PAGE];
	uLong sum = crc32(0, NULL, 0);
	ssize_t n;

	for (off_t at = 0; at < size; at = tree_next_place(at + n, size)) {
		n = pread(fd, buf, sizeof(buf), at);
		ORACLE_CHECK(n > 0, "read %s", name);
		sum = crc32(sum, buf, (uInt)n);
	}
	return sum;
}

static void add_extracted(void *arg, int dirfd, const char *name, const char *path,
			  const struct stat *st)
{
	char text[PATH_MAX];
	struct entry *e;
	ssize_t n;

	if (!*path)
		return;
	e = tree_add(arg, "", path + 1, st);
	if (S_ISREG(st->st_mode))
		e->content = sum_file(dirfd, name, st->st_size);
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dirfd, name, text, sizeof(text));
		ORACLE_CHECK(n >= 0 && (e->text = strndup(text, (size_t)n)), "%s", path);
		tree_sum_link(e);
	}
}

static int extract(const struct input *in, struct tree *t, struct error *err)
{
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT, .nested = in->nested };
	int r = oracle_extract(&o, &ds, err);

	if (r == 0)
		oracle_walk(o.target_fd, add_extracted, t);
	tree_sort(t);
	oracle_clear(&o);
	return r;
}

/* ---- mounts ---- */

static int scan(const struct input *in, int fd, struct archive_index *x, struct error *err)
{
	const struct zip_scan zip = { .fd = fd, .size = in->size };
	struct tar_scan tar = { .fd = fd, .size = in->size, .nested = in->nested };

	if (in->format == FORMAT_ZIP)
		return zip_scan(x, &zip, err);
	if (oracle_chance(40)) {
		tar.n_readers = 3;
		tar.segment_size = SOUND_BLOCK * (1 + oracle_random(40));
		tar.is_fast = oracle_chance(50);
	}
	return tar_scan(x, &tar, err);
}

/* Other bytes, or fewer. */
static void change_archive(const struct input *in)
{
	_cleanup_(fd_closep) int fd = open(o.input, O_WRONLY | O_CLOEXEC);
	const size_t at = oracle_random((uint32_t)in->size);

	if (oracle_chance(50))
		ORACLE_CHECK(fd >= 0 && ftruncate(fd, (off_t)at) == 0, "cut");
	else
		ORACLE_CHECK(fd >= 0 && pwrite(fd, "!", 1, (off_t)at) == 1, "change");
}

/* As the worker does it. change: when it is mounted. */
static int mount(const struct input *in, bool change, struct tree *t, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	_cleanup_(volume_freep) struct volume *volume = NULL;
	_cleanup_(fd_closep) int fd = open(o.input, O_RDONLY | O_CLOEXEC);
	static atomic_uint n_idle = 1;
	struct stat st;
	int r;

	ORACLE_CHECK(fd >= 0 && fstat(fd, &st) == 0, "%s", o.input);
	r = archive_index_new(&x, 0, err);
	if (r == 0)
		r = scan(in, fd, x, err);
	if (r == 0)
		r = archive_index_finish(x, NULL, err);
	if (r < 0)
		return r;
	ORACLE_CHECK(archive_volume_new(&volume, x, fd, &st, CACHE) == 0, "memory");
	steal_ptr(x);
	ORACLE_CHECK(volume->ops->start(volume, &n_idle, 1) == 0, "volume");
	if (change)
		change_archive(in);
	tree_read(t, volume, in->size);
	return 0;
}

/* ---- what must hold ---- */

/* Directories that have no member of their own have a time of now where they are extracted. */
static bool has_time(const struct entry *extracted)
{
	return !S_ISDIR(extracted->mode) || extracted->mtime.tv_sec < start;
}

static const char *find_difference(const struct entry *m, const struct entry *x)
{
	if (m->mode != x->mode)
		return "mode";
	if (has_time(x) &&
	    (m->mtime.tv_sec != x->mtime.tv_sec || m->mtime.tv_nsec != x->mtime.tv_nsec))
		return "time";
	if (S_ISDIR(m->mode))
		return NULL;
	if (m->n_links != x->n_links)
		return "number of links";
	if (S_ISLNK(m->mode))
		return strcmp(m->text, x->text) ? "target" : NULL;
	if (m->failed)
		return "error";
	return m->size != x->size ? "size" : m->content != x->content ? "content" : NULL;
}

static void check_same(const struct input *in, const struct tree *mounted,
		       const struct tree *expected, const char *of)
{
	size_t n = mounted->n < expected->n ? mounted->n : expected->n;

	for (size_t i = 0; i < n; i++) {
		const struct entry *m = &mounted->v[i], *x = &expected->v[i];
		const char *what;

		ORACLE_CHECK(!strcmp(m->path, x->path), "archive %lu: %s and %s, %s", in->number,
			     m->path, x->path, of);
		what = find_difference(m, x);
		ORACLE_CHECK(!what, "archive %lu: %s has another %s, %s: %o and %o, %lld and %lld",
			     in->number, m->path, what, of, m->mode, x->mode, (long long)m->size,
			     (long long)x->size);
	}
	ORACLE_CHECK(mounted->n == expected->n, "archive %lu: %zu entries, %zu %s", in->number,
		     mounted->n, expected->n, of);
}

/* A file that was read has the bytes of a sound one, or of a sound link's target: names and modes
 * have no sum. */
static void check_content(const struct input *in, const struct tree *mounted,
			  const struct tree *sound)
{
	for (size_t i = 0; i < mounted->n; i++) {
		const struct entry *m = &mounted->v[i];
		bool found = !S_ISREG(m->mode) || m->failed;

		for (size_t k = 0; k < sound->n && !found; k++)
			found = !S_ISDIR(sound->v[k].mode) && sound->v[k].size == m->size &&
				sound->v[k].content == m->content;
		ORACLE_CHECK(found, "archive %lu: %s has wrong bytes", in->number, m->path);
	}
}

static bool is_limit(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

/* libarchive, which extracts sparse files, looks less closely at their maps. These have no sum. */
static bool is_map(int r, const struct error *err)
{
	return r == -EBADMSG &&
	       (strstr(err->text, "a sparse file") || strstr(err->text, "the pieces of a file"));
}

static void check_refused(const struct input *in, int r, int extracted, const struct error *err)
{
	ORACLE_CHECK(err->text[0], "archive %lu: refused without a word", in->number);
	ORACLE_CHECK(extracted < 0 || r == -EOPNOTSUPP || is_map(r, err),
		     "archive %lu: extracted, and not mounted: %s", in->number, err->text);
	n_foreign += extracted == 0 && r == -EOPNOTSUPP;
	n_maps += extracted == 0 && r != -EOPNOTSUPP;
	n_refused += extracted < 0;
}

static void check_ready(const struct input *in, const struct tree *mounted,
			const struct tree *extracted, int r, const struct error *err)
{
	const struct sound *s = in->from;
	const struct tree *sound = s ? &sound_trees[s - sounds] : NULL;
	const struct damaged d = { .from = s, .data = in->data, .size = in->size };

	if (r == 0)
		check_same(in, mounted, extracted, "as extracted");
	else
		ORACLE_CHECK(is_limit(r) || (in->format == FORMAT_ZIP && mounted->failed),
			     "archive %lu: falsely ready: extraction says: %s", in->number,
			     err->text);
	if (s && in->format == FORMAT_ZIP)
		check_content(in, mounted, sound);
	if (s && in->format == FORMAT_TAR && !in->nested) {
		if (sound_can_be_told(&d))
			check_same(in, mounted, sound, "before it was damaged");
		else
			n_untold++;
	}
	n_ready += r == 0;
	n_limited += is_limit(r);
	n_failed += r < 0 && !is_limit(r);
}

static void try_one(const struct input *in)
{
	_cleanup_(tree_clear) struct tree mounted = { 0 }, extracted = { 0 };
	struct error err = ERROR_INIT, why = ERROR_INIT;
	int r, x;

	oracle_write_input(&o, in->data, in->size);
	x = extract(in, &extracted, &why);
	r = mount(in, false, &mounted, &err);
	if (r < 0)
		check_refused(in, r, x, &err);
	else
		check_ready(in, &mounted, &extracted, x, &why);
}

/* All that has content is an error for its readers. */
static void try_changed(const struct input *in)
{
	_cleanup_(tree_clear) struct tree mounted = { 0 };
	struct error err = ERROR_INIT;

	oracle_write_input(&o, in->data, in->size);
	ORACLE_CHECK(mount(in, true, &mounted, &err) == 0, "archive %lu: %s", in->number, err.text);
	for (size_t i = 0; i < mounted.n; i++)
		ORACLE_CHECK(!S_ISREG(mounted.v[i].mode) || mounted.v[i].size == 0 ||
				     mounted.v[i].failed,
			     "archive %lu: %s was read after a change", in->number,
			     mounted.v[i].path);
	n_changed++;
}

/* ---- archives ---- */

static void load(const char *dir, const char *name)
{
	struct sound *s = &sounds[n_sounds];
	struct tree extracted = { 0 };
	struct error err = ERROR_INIT;
	struct input in = { 0 };

	ORACLE_CHECK(n_sounds < MAX_SOUND, "%s", name);
	sound_load(s, dir, name);
	in = (struct input){ .from = s, .data = s->data, .size = s->size, .format = s->format };
	oracle_write_input(&o, s->data, s->size);
	ORACLE_CHECK(extract(&in, &extracted, &err) == 0, "%s: %s", name, err.text);
	ORACLE_CHECK(mount(&in, false, &sound_trees[n_sounds], &err) == 0, "%s: %s", name,
		     err.text);
	check_same(&in, &sound_trees[n_sounds], &extracted, "of the sound one");
	ORACLE_CHECK(extracted.n > 0, "%s is empty", name);
	tree_clear(&extracted);
	n_sounds++;
}

/* At each border, and one byte around some. */
static void cut_everywhere(const struct sound *s)
{
	struct input in = { .from = s, .data = s->data, .format = s->format };

	for (size_t at = SOUND_BLOCK; at < s->size; at += SOUND_BLOCK)
		for (in.size = at - 1; in.size <= at + 1 && in.size < s->size; in.size++)
			if (in.size == at || at % (8 * SOUND_BLOCK) == 0)
				try_one(&in);
}

static void try_hostile(unsigned long number)
{
	_cleanup_(freep) unsigned char *data = NULL;
	char canary[sizeof(o.deep) + 16];
	struct input in = { .number = number, .format = FORMAT_TAR, .nested = oracle_chance(30) };

	snprintf(canary, sizeof(canary), "%s/canary", o.deep);
	in.data = data = hostile_tar_new(canary, &in.size);
	if (magic_get_format(in.data, in.size < MAGIC_SIZE ? in.size : MAGIC_SIZE) == FORMAT_TAR)
		try_one(&in);
	else
		n_refused++; /* it is no archive to either of them */
}

static void try_damaged(unsigned long number)
{
	const struct sound *s = &sounds[oracle_random((uint32_t)n_sounds)];
	_cleanup_(freep) unsigned char *data = malloc(s->size + SOUND_MORE);
	struct damaged d = { .from = s, .data = data, .size = s->size };
	struct input in = { .from = s, .data = data, .format = s->format, .number = number };

	ORACLE_CHECK(data, "memory");
	memcpy(data, s->data, s->size);
	in.nested = s->format == FORMAT_TAR && oracle_chance(30);
	if (oracle_chance(5)) {
		in.nested = false;
		in.size = s->size;
		try_changed(&in);
		return;
	}
	sound_damage(&d);
	in.size = d.size;
	if (magic_get_format(data, in.size < MAGIC_SIZE ? in.size : MAGIC_SIZE) == s->format)
		try_one(&in);
	else
		n_refused++;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000, n_all;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;

	ORACLE_CHECK(argc > 1, "usage: oracle-mount DIRECTORY ARCHIVES [SEED]");
	start = time(NULL);
	oracle_open(&o);
	umask(0); /* a mount shows the archive's modes */
	sound_list(argv[1], load);
	for (size_t i = 0; i < n_sounds; i++)
		cut_everywhere(&sounds[i]);
	for (unsigned long i = 0; i < n; i++) {
		oracle_seed(seed + i);
		if (oracle_chance(40))
			try_hostile(seed + i);
		else
			try_damaged(seed + i);
	}
	oracle_close(&o);
	for (size_t i = 0; i < n_sounds; i++) {
		sound_deinit(&sounds[i]);
		tree_clear(&sound_trees[i]);
	}
	n_all = n_ready + n_refused + n_foreign + n_maps + n_limited + n_failed + n_changed;
	printf("%lu hostile or damaged archives: %lu mounted as extracted (%lu with damage that no "
	       "sum covers), %lu refused by both, %lu left to extraction, %lu for a map of holes "
	       "that libarchive takes, %lu beyond the oracle's room, %lu with errors for readers, "
	       "%lu changed while mounted; none falsely ready, none with wrong bytes\n",
	       n_all, n_ready, n_untold, n_refused, n_foreign, n_maps, n_limited, n_failed,
	       n_changed);
	/* What is refused at once tells nothing. */
	ORACLE_CHECK(n < 100 || (n_ready > n / 20 && n_failed > n / 500 && n_changed > n / 100),
		     "%lu, %lu and %lu of %lu", n_ready, n_failed, n_changed, n);
	return 0;
}
