/*
 * Damaged and cut archives and images, each through the real stager: what it calls ready is the
 * tree of the sound one.
 *
 *	oracle-damage DIRECTORY INPUTS [SEED]
 *
 * DIRECTORY has the sound ones (tests/fuzz/seeds: damage/). Each is cut at every border of 512
 * bytes, and INPUTS times one of them is damaged or cut at random. What a format has no sum over
 * can't be told and is left out, and nothing else. In a tar that is not wrapped, that is the bytes
 * outside of headers (data, and the names and attributes of pax and GNU records), a header whose
 *own sum still fits, and a header from which on all became zeros, which is the end of a shorter
 *tar. In a squashfs image it is what does not lie in a block that is compressed by zlib. A fourth
 *of the inputs is staged with verify=sha256 of the sound one, where nothing at all is left out.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/copy/hash.h"
#include "tests/fuzz/oracle.h"

#define BLOCK 512
#define MAX_SOUND 64

struct sound {
	char *name;
	unsigned char *data;
	bool *covered; /* each byte: a sum is taken over it */
	size_t size;
	enum facts_format format; /* PLAIN: it is wrapped, and covered from end to end */
	uint64_t tree;
	char sha256[HASH_TEXT_SIZE];
};

static struct oracle o;
static struct sound sounds[MAX_SOUND];
static size_t n_sounds;
static unsigned long n_refused, n_same, n_untold;

/* ---- what is covered ---- */

static bool is_header(const unsigned char *h)
{
	return magic_get_format(h, BLOCK) == FORMAT_TAR;
}

static void cover_tar(struct sound *s)
{
	size_t at = 0;

	while (at + BLOCK <= s->size && is_header(s->data + at)) {
		const unsigned char *h = s->data + at;
		int64_t n = magic_read_octal(h + 124, 12);
		bool more = h[156] == 'S' && h[482]; /* blocks with more of its map of holes */

		memset(s->covered + at, true, BLOCK);
		for (at += BLOCK; more; at += BLOCK)
			more = s->data[at + 504];
		at += h[156] < '1' || h[156] > '6' ? ((size_t)n + BLOCK - 1) / BLOCK * BLOCK : 0;
	}
	/* from the end on nothing may stand there but zeros */
	memset(s->covered + at, true, s->size - at);
}

static void load(const char *dir, const char *name)
{
	struct sound *s = &sounds[n_sounds++];
	_cleanup_(freep) char *path = NULL;
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT };
	struct error err = ERROR_INIT;
	struct hash *hash = NULL;

	ORACLE_CHECK(n_sounds <= MAX_SOUND && asprintf(&path, "%s/%s", dir, name) > 0, "%s", name);
	s->name = strdup(name);
	s->data = oracle_read_file(path, &s->size);
	s->format = magic_get_filter(s->data, s->size) ? FORMAT_PLAIN
						       : magic_get_format(s->data, s->size);
	s->covered = s->format == FORMAT_SQUASHFS ? oracle_cover_image(s->data, s->size)
						  : calloc(s->size + 1, sizeof(*s->covered));
	if (s->format == FORMAT_TAR)
		cover_tar(s);
	else if (s->format != FORMAT_SQUASHFS)
		memset(s->covered, true, s->size);
	ORACLE_CHECK(hash_new(&hash) == 0, "memory");
	hash_add(hash, s->data, s->size);
	hash_get(hash, s->sha256);
	hash_free(hash);
	oracle_write_input(&o, s->data, s->size);
	ORACLE_CHECK(oracle_extract(&o, &ds, &err) == 0, "%s: %s", name, err.text);
	s->tree = oracle_sum_tree(o.target_fd);
	oracle_clear(&o);
}

static void load_all(const char *path)
{
	_cleanup_(dir_closep) DIR *d = opendir(path);
	struct dirent *e;

	ORACLE_CHECK(d, "%s", path);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			load(path, e->d_name);
	ORACLE_CHECK(n_sounds > 0, "%s is empty", path);
}

/* ---- damage ---- */

struct damaged {
	const struct sound *from;
	unsigned char *data;
	size_t size;
};

static bool is_end(const struct damaged *d, size_t at)
{
	while (at < d->size && !d->data[at])
		at++;
	return at == d->size;
}

/* Could a reader know? */
static bool can_be_told(const struct damaged *d)
{
	const struct sound *s = d->from;
	size_t n = d->size < s->size ? d->size : s->size;

	if (d->size != s->size && s->format != FORMAT_SQUASHFS)
		return true;
	if (d->size < s->size)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (d->data[i] == s->data[i])
			continue;
		if (!s->covered[i])
			return false;
		if (s->format == FORMAT_TAR &&
		    (is_header(d->data + i / BLOCK * BLOCK) || is_end(d, i / BLOCK * BLOCK)))
			return false;
	}
	return true;
}

static void try_one(const struct damaged *d, bool verify, const char *how)
{
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT };
	struct error err = ERROR_INIT;
	bool same = d->size == d->from->size && !memcmp(d->data, d->from->data, d->size);
	int r;

	if (same)
		return;
	if (verify) {
		ds.verify = DATASET_VERIFY_SHA256;
		strcpy(ds.sha256, d->from->sha256);
	}
	oracle_write_input(&o, d->data, d->size);
	r = oracle_extract(&o, &ds, &err);
	if (r < 0) {
		ORACLE_CHECK(err.text[0], "%s, %s: refused without a word", d->from->name, how);
		n_refused++;
	} else {
		ORACLE_CHECK(!verify, "%s, %s: not what the sum says, and ready", d->from->name,
			     how);
		if (oracle_sum_tree(o.target_fd) == d->from->tree)
			n_same++;
		else
			ORACLE_CHECK(!can_be_told(d), "%s, %s: ready with a wrong tree",
				     d->from->name, how);
		n_untold += !can_be_told(d);
	}
	oracle_clear(&o);
}

/* At each border, and one byte around it. */
static void cut_everywhere(const struct sound *s)
{
	struct damaged d = { .from = s, .data = s->data };
	char how[64];

	for (size_t at = 0; at < s->size; at += BLOCK)
		for (d.size = at > 0 ? at - 1 : 0; d.size <= at + 1 && d.size < s->size; d.size++) {
			if (d.size != at && at % (8 * BLOCK))
				continue;
			snprintf(how, sizeof(how), "cut at %zu", d.size);
			try_one(&d, false, how);
		}
}

/* Some bytes changed, a run of zeros, a cut, more behind the end; of what is wrapped a part twice
 * or missing, too. */
static void damage(struct damaged *d)
{
	const struct sound *s = d->from;
	size_t at = oracle_random((uint32_t)s->size), n = 1 + oracle_random(2000);

	n = n < s->size - at ? n : s->size - at;
	switch (oracle_random(s->format == FORMAT_PLAIN ? 7 : 5)) {
	case 0:
		memset(d->data + at, 0, n);
		break;
	case 1:
		d->size = at;
		break;
	case 2:
		for (size_t i = 0; i < n; i++)
			d->data[d->size++] = (unsigned char)oracle_random(256);
		break;
	case 5: /* missing */
		memmove(d->data + at, d->data + at + n, s->size - at - n);
		d->size -= n;
		break;
	case 6: /* twice */
		memmove(d->data + at + n, d->data + at, s->size - at);
		d->size += n;
		break;
	default:
		for (uint32_t i = 1 + oracle_random(8); i > 0; i--)
			d->data[oracle_random((uint32_t)s->size)] ^=
				(unsigned char)(1u << oracle_random(8));
	}
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	char how[64];

	ORACLE_CHECK(argc > 1, "usage: oracle-damage DIRECTORY INPUTS [SEED]");
	oracle_open(&o);
	load_all(argv[1]);
	for (size_t i = 0; i < n_sounds; i++)
		cut_everywhere(&sounds[i]);
	for (unsigned long i = 0; i < n; i++) {
		_cleanup_(freep) unsigned char *data = NULL;
		struct damaged d = { 0 };

		oracle_seed(seed + i);
		d.from = &sounds[oracle_random((uint32_t)n_sounds)];
		d.data = data = malloc(d.from->size + 4096);
		d.size = d.from->size;
		ORACLE_CHECK(data, "memory");
		memcpy(data, d.from->data, d.size);
		damage(&d);
		snprintf(how, sizeof(how), "seed %llu", (unsigned long long)(seed + i));
		try_one(&d, oracle_chance(25), how);
	}
	oracle_close(&o);
	for (size_t i = 0; i < n_sounds; i++) {
		free(sounds[i].name);
		free(sounds[i].data);
		free(sounds[i].covered);
	}
	printf("%lu damaged: %lu refused, %lu ready with the sound one's tree, %lu that their "
	       "format "
	       "has no sum for; none ready with a wrong tree\n",
	       n_refused + n_same + n_untold, n_refused, n_same, n_untold);
	return 0;
}
