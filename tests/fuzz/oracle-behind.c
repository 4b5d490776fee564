/*
 * Images that are copied behind their readers (hydrate=copy). They are damaged, cut, cut while they
 * are copied, or their copy can't be written. A reader of the server's answers gets what the sound
 * image holds, or an error. What the copy is said to hold is what the image held.
 *
 *	oracle-behind DIRECTORY IMAGES [SEED]
 *
 * DIRECTORY has sound images that are copied in several pieces (tests/fuzz/seeds: behind/). Changed
 * bytes that no sum covers can't be told; of what is cut, or not copied, everything is.
 */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include <fuse_lowlevel.h>

#include "common/util/cleanup.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-check.h"
#include "daemon/engines/image/sqfs-copy.h"
#include "daemon/engines/image/sqfs-hydrate.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-ops.h"
#include "daemon/engines/image/sqfs-pipe.h"
#include "daemon/engines/image/sqfs-volume.h"
#include "daemon/engines/image/volume.h"
#include "tests/fuzz/oracle.h"

#define MAX_SOUND 8
#define MAX_ENTRIES 64
#define CACHE (1 << 20) /* less than the content: it is read twice */
#define PAGE 131072
#define LISTING 65536
#define MORE (1 << 20)	 /* behind the image, as a hole */
#define WAIT_US 60000000 /* for the copy's end */

enum what { NOTHING, BYTES, CUT, CUT_MEANWHILE, COPY_FAILS, N_WHATS };

struct entry {
	uint64_t path; /* a sum over it */
	fuse_ino_t node;
	mode_t mode;
	off_t size;
	uLong content; /* a sum over it */
	bool failed;
};

struct tree {
	struct entry entries[MAX_ENTRIES];
	size_t n;
	bool failed; /* so there may be more */
};

struct sound {
	unsigned char *data;
	bool *covered;
	size_t size;
	struct tree tree;
};

static struct sound sounds[MAX_SOUND];
static size_t n_sounds;
static struct oracle o;
static struct sqfs_view view;
static atomic_bool warned;
static unsigned long n_refused, n_failed, n_same, n_copied, n_untold;

/* ---- the kernel's side ---- */

static struct {
	struct tree *tree;
	uint64_t parent;
	off_t next;
	uLong content;
	size_t size; /* of the last answer */
	int err;
} kernel;

void *__wrap_fuse_req_userdata(fuse_req_t req);
int __wrap_fuse_reply_err(fuse_req_t req, int err);
void __wrap_fuse_reply_none(fuse_req_t req);
int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n);
int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size);
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg);
size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);
size_t __real_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);

static void warn(struct stage_io *io, const char *text)
{
	warned = true;
}

void *__wrap_fuse_req_userdata(fuse_req_t req)
{
	return &view;
}

int __wrap_fuse_reply_err(fuse_req_t req, int err)
{
	ORACLE_CHECK(err > 0, "error %d", err);
	kernel.err = err;
	return 0;
}

void __wrap_fuse_reply_none(fuse_req_t req)
{
}

int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++) {
		kernel.content = crc32(kernel.content, iov[i].iov_base, (uInt)iov[i].iov_len);
		kernel.size += iov[i].iov_len;
	}
	return 0;
}

int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size)
{
	return 0;
}

/* As the kernel takes it: from the file itself, all of it or nothing. */
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg)
{
	static char buf[PAGE];
	size_t size = 0;

	if (oracle_chance(30))
		return -EOPNOTSUPP;
	for (size_t i = 0; i < n; size += spans[i++].size) {
		ORACLE_CHECK(spans[i].size <= sizeof(buf) - size, "%zu bytes", spans[i].size);
		if (pread(fd, buf + size, spans[i].size, (off_t)spans[i].offset) !=
		    (ssize_t)spans[i].size)
			return -EIO;
	}
	kernel.content = crc32(kernel.content, (const Bytef *)buf, (uInt)size);
	kernel.size += size;
	return 0;
}

static uint64_t add_name(uint64_t sum, const char *name)
{
	for (sum ^= '/'; *name; name++)
		sum = (sum ^ (unsigned char)*name) * 1099511628211u; /* FNV-1a */
	return sum;
}

size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off)
{
	size_t n = __real_fuse_add_direntry_plus(req, buf, size, name, e, off);
	struct tree *t = kernel.tree;

	if (n > size)
		return n;
	kernel.next = off;
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return n;
	if (!e->ino ||
	    t->n == MAX_ENTRIES) /* it can't be read, or there were fewer in the sound one */
		t->failed = true;
	else
		t->entries[t->n++] = (struct entry){ .path = add_name(kernel.parent, name),
						     .node = e->ino,
						     .mode = e->attr.st_mode,
						     .size = e->attr.st_size };
	return n;
}

/* ---- readers ---- */

static void list(struct tree *t, fuse_ino_t node, uint64_t path)
{
	size_t before;

	kernel.tree = t;
	kernel.parent = path;
	kernel.err = 0;
	kernel.next = 0;
	for (off_t at = -1; kernel.next != at && !kernel.err;) {
		at = kernel.next;
		before = t->n;
		sqfs_ops.readdirplus(NULL, node, LISTING, at, NULL);
		if (t->n == before && at > 0)
			break;
	}
	t->failed = t->failed || kernel.err;
}

static void read_file(struct entry *e)
{
	kernel.content = crc32(0, NULL, 0);
	kernel.err = 0;
	for (off_t at = 0; at < e->size && !kernel.err; at += PAGE) {
		kernel.size = 0;
		sqfs_ops.read(NULL, e->node, PAGE, at, NULL);
		if (!kernel.err &&
		    kernel.size != (size_t)(e->size - at < PAGE ? e->size - at : PAGE))
			kernel.err = EIO; /* shorter than it says */
	}
	e->content = kernel.content;
	e->failed = kernel.err != 0;
}

static void read_tree(struct tree *t)
{
	t->n = 0;
	t->failed = false;
	list(t, FUSE_ROOT_ID, 0);
	for (size_t i = 0; i < t->n; i++) {
		struct entry *e = &t->entries[i];

		if (S_ISDIR(e->mode))
			list(t, e->node, e->path);
		else if (S_ISREG(e->mode))
			read_file(e);
		t->failed = t->failed || e->failed;
	}
}

/* What was read is the sound one's; and all of it was read, where nothing failed. */
static bool is_right(const struct tree *t, const struct tree *sound)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct entry *a = &t->entries[i], *b = NULL;

		for (size_t k = 0; k < sound->n && !b; k++)
			b = sound->entries[k].path == a->path ? &sound->entries[k] : NULL;
		if (!b || b->mode != a->mode || (S_ISREG(a->mode) && b->size != a->size))
			return false;
		if (!a->failed && b->content != a->content)
			return false;
	}
	return t->failed || t->n == sound->n;
}

/* ---- images ---- */

static void serve_plainly(const struct sound *s, struct tree *t)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(volume_freep) struct volume *volume = NULL;
	static atomic_uint n_idle = 1;
	_cleanup_(fd_closep) int fd = -1;
	struct error err = ERROR_INIT;

	oracle_write_input(&o, s->data, s->size);
	fd = open(o.input, O_RDONLY | O_CLOEXEC);
	ORACLE_CHECK(sqfs_image_open(&img, fd, CACHE, &err) == 0, "%s", err.text);
	ORACLE_CHECK(sqfs_volume_new(&volume, img) == 0, "volume");
	ORACLE_CHECK(volume->ops->start(volume, &n_idle, 1) == 0, "volume");
	view = (struct sqfs_view){ .volume = volume };
	read_tree(t);
	ORACLE_CHECK(!t->failed && t->n > 0, "a sound image");
}

static void load_all(const char *path)
{
	_cleanup_(dir_closep) DIR *d = opendir(path);
	struct dirent *e;

	ORACLE_CHECK(d, "%s", path);
	while ((e = readdir(d))) {
		struct sound *s = &sounds[n_sounds];
		_cleanup_(freep) char *name = NULL;

		if (e->d_name[0] == '.')
			continue;
		ORACLE_CHECK(n_sounds < MAX_SOUND && asprintf(&name, "%s/%s", path, e->d_name) > 0,
			     "%s", path);
		s->data = oracle_read_file(name, &s->size);
		ORACLE_CHECK(s->size > SQFS_COPY_PIECE, "%s has one piece", name);
		s->covered = oracle_cover_image(s->data, s->size);
		serve_plainly(s, &s->tree);
		n_sounds++;
	}
	ORACLE_CHECK(n_sounds > 0, "%s is empty", path);
}

/* Could a reader know? */
static bool change_bytes(const struct sound *s, unsigned char *data)
{
	size_t at = oracle_random((uint32_t)s->size), n = 1 + oracle_random(2000);
	bool told = true;

	n = n < s->size - at ? n : s->size - at;
	if (oracle_chance(50))
		memset(data + at, 0, n);
	else
		for (uint32_t i = 1 + oracle_random(8); i > 0; i--)
			data[oracle_random((uint32_t)s->size)] ^=
				(unsigned char)(1u << oracle_random(8));
	for (size_t i = 0; i < s->size && told; i++)
		told = data[i] == s->data[i] || s->covered[i];
	return told;
}

/* ---- copying ---- */

struct trial {
	const struct sound *from;
	enum what what;
	bool told;
	unsigned char *data; /* the image, before it is cut meanwhile */
	size_t size;	     /* with what is behind it */
	struct stat st;
	int in, out;
	uint64_t seed;
};

/* What the copy is said to hold is there. Returns whether that is all. */
static bool check_copy(const struct trial *t, const struct sqfs_image *img)
{
	static unsigned char buf[SQFS_COPY_PIECE];
	bool all = true;

	for (size_t at = 0, n; at < t->size; at += n) {
		n = t->size - at < sizeof(buf) ? t->size - at : sizeof(buf);
		if (!sqfs_image_is_copied(img, at, n)) {
			all = false;
			continue;
		}
		ORACLE_CHECK(pread(t->out, buf, n, (off_t)at) == (ssize_t)n &&
				     !memcmp(buf, t->data + at, n),
			     "seed %llu, kind %d: the copy is another at %zu",
			     (unsigned long long)t->seed, t->what, at);
	}
	return all;
}

static void spoil(const struct trial *t)
{
	if (t->what == CUT_MEANWHILE)
		ORACLE_CHECK(truncate(o.input, oracle_random((uint32_t)t->size)) == 0, "cut");
	if (t->what == COPY_FAILS)
		ORACLE_CHECK(fcntl(t->out, F_ADD_SEALS, F_SEAL_WRITE) == 0, "seal");
}

static void wait_for_end(const struct trial *t, const struct sqfs_image *img)
{
	unsigned waited = 0;

	while (!warned && !sqfs_image_is_copied(img, 0, t->size)) {
		ORACLE_CHECK(waited < WAIT_US, "seed %llu: it does not end",
			     (unsigned long long)t->seed);
		usleep(100);
		waited += 100;
	}
}

static void check_tree(const struct trial *t, const struct tree *tree, const char *when)
{
	ORACLE_CHECK(!t->told || is_right(tree, &t->from->tree),
		     "seed %llu, kind %d: a wrong tree %s it was copied",
		     (unsigned long long)t->seed, t->what, when);
	ORACLE_CHECK(!tree->failed || (t->what != NOTHING && t->what != COPY_FAILS),
		     "seed %llu: can't be read %s it was copied", (unsigned long long)t->seed,
		     when);
}

static void serve(const struct trial *t)
{
	struct dataset ds = { .name = "behind" };
	static const struct stage_io_ops ops = { .warn = warn };
	struct stage_io io = { .ops = &ops, .ds = &ds, .n_threads = 2 }; /* outlives the threads */
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(sqfs_hydrate_freep) struct sqfs_hydrate *h = NULL;
	_cleanup_(volume_freep) struct volume *volume = NULL;
	static atomic_uint n_idle = 1;
	struct error err = ERROR_INIT;
	static struct tree tree;
	bool all;

	if (sqfs_image_open(&img, t->in, CACHE, &err) < 0)
		return;
	ORACLE_CHECK(sqfs_volume_new(&volume, img) == 0, "volume");
	ORACLE_CHECK(volume->ops->start(volume, &n_idle, 1) == 0, "volume");
	ORACLE_CHECK(sqfs_hydrate_new(&h, &io, img, t->in, t->out, &t->st, &err) == 0, "%s",
		     err.text);
	view = (struct sqfs_view){ .volume = volume };
	warned = false;
	if (oracle_chance(50)) {
		spoil(t);
		sqfs_hydrate_start(h);
	} else {
		sqfs_hydrate_start(h);
		usleep(oracle_random(2000));
		spoil(t);
	}
	read_tree(&tree);
	check_tree(t, &tree, "while");
	wait_for_end(t, img);
	read_tree(&tree);
	check_tree(t, &tree, "when");
	all = check_copy(t, img);
	ORACLE_CHECK(all || warned, "seed %llu: not copied, without a word",
		     (unsigned long long)t->seed);
	n_copied += all;
	n_untold += !t->told;
	n_failed += tree.failed;
	n_same += t->told && !tree.failed;
}

static void try_one(uint64_t seed)
{
	const struct sound *s = &sounds[oracle_random((uint32_t)n_sounds)];
	_cleanup_(freep) unsigned char *data = calloc(1, s->size + MORE);
	_cleanup_(fd_closep) int in = -1, out = memfd_create("copy", MFD_ALLOW_SEALING);
	struct trial t = { .from = s, .what = oracle_random(N_WHATS), .told = true, .seed = seed };
	struct sqfs_counts counts;
	struct error err = ERROR_INIT;

	ORACLE_CHECK(data && out >= 0, "memory");
	memcpy(data, s->data, s->size);
	t.data = data;
	t.size = s->size;
	t.out = out;
	if (t.what == BYTES)
		t.told = change_bytes(s, data);
	if (t.what == CUT) /* mostly of what is not needed: the other ones end here */
		t.size -= oracle_random(oracle_chance(80) ? 4096 : (uint32_t)s->size);
	oracle_write_input(&o, data, t.size);
	if (t.what != CUT && oracle_chance(50))
		ORACLE_CHECK(truncate(o.input, (off_t)(t.size += MORE)) == 0, "make it sparse");
	t.in = in = open(o.input, O_RDONLY | O_CLOEXEC);
	ORACLE_CHECK(in >= 0 && fstat(in, &t.st) == 0, "%s", o.input);
	ORACLE_CHECK(ftruncate(out, t.st.st_size) == 0, "make the copy");
	if (sqfs_check_run(in, &counts, NULL, NULL, &err) < 0) {
		ORACLE_CHECK(t.what == BYTES || t.what == CUT, "a sound image: %s", err.text);
		n_refused++;
		return;
	}
	serve(&t);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;

	ORACLE_CHECK(argc > 1, "usage: oracle-behind DIRECTORY IMAGES [SEED]");
	oracle_open(&o);
	load_all(argv[1]);
	for (unsigned long i = 0; i < n; i++) {
		oracle_seed(seed + i);
		try_one(seed + i);
	}
	oracle_close(&o);
	for (size_t i = 0; i < n_sounds; i++) {
		free(sounds[i].data);
		free(sounds[i].covered);
	}
	printf("%lu damaged or cut behind their readers: %lu refused, %lu with errors at last, %lu "
	       "with "
	       "the sound one's tree, %lu that no sum covers; %lu copied; none with a wrong tree\n",
	       n, n_refused, n_failed, n_same, n_untold, n_copied);
	/* What is refused at once tells nothing. */
	ORACLE_CHECK(n < 100 || (n_failed > n / 50 && n_same > n / 10 && n_copied > n / 10 &&
				 n_copied < n),
		     "%lu, %lu and %lu of %lu", n_failed, n_same, n_copied, n);
	return 0;
}
