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
 * own sum still fits, and a header from which on all became zeros, which is the end of a shorter
 * tar. In a squashfs image it is what does not lie in a block that is compressed by zlib. A fourth
 *of the inputs is staged with verify=sha256 of the sound one, where nothing at all is left out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "daemon/engines/copy/hash.h"
#include "tests/fuzz/damaged-input.h"
#include "tests/fuzz/oracle.h"

#define MAX_SOUND 64

struct known {
	struct sound sound;
	uint64_t tree; /* sum of what it is extracted to */
	char sha256[HASH_TEXT_SIZE];
};

static struct oracle o;
static struct known all[MAX_SOUND];
static size_t n_all;
static unsigned long n_refused, n_same, n_untold;

static void load(const char *dir, const char *name)
{
	struct known *k = &all[n_all++];
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT };
	struct error err = ERROR_INIT;
	struct hash *hash = NULL;

	ORACLE_CHECK(n_all <= MAX_SOUND, "%s", name);
	sound_load(&k->sound, dir, name);
	ORACLE_CHECK(hash_new(&hash) == 0, "memory");
	hash_add(hash, k->sound.data, k->sound.size);
	hash_get(hash, k->sha256);
	hash_free(hash);
	oracle_write_input(&o, k->sound.data, k->sound.size);
	ORACLE_CHECK(oracle_extract(&o, &ds, &err) == 0, "%s: %s", name, err.text);
	k->tree = oracle_sum_tree(o.target_fd);
	oracle_clear(&o);
}

static void try_one(const struct known *k, const struct damaged *d, bool verify, const char *how)
{
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT };
	struct error err = ERROR_INIT;
	bool same = d->size == d->from->size && !memcmp(d->data, d->from->data, d->size);
	int r;

	if (same)
		return;
	if (verify) {
		ds.verify = DATASET_VERIFY_SHA256;
		strcpy(ds.sha256, k->sha256);
	}
	oracle_write_input(&o, d->data, d->size);
	r = oracle_extract(&o, &ds, &err);
	if (r < 0) {
		ORACLE_CHECK(err.text[0], "%s, %s: refused without a word", d->from->name, how);
		n_refused++;
	} else {
		ORACLE_CHECK(!verify, "%s, %s: not what the sum says, and ready", d->from->name,
			     how);
		if (oracle_sum_tree(o.target_fd) == k->tree)
			n_same++;
		else
			ORACLE_CHECK(!sound_can_be_told(d), "%s, %s: ready with a wrong tree",
				     d->from->name, how);
		n_untold += !sound_can_be_told(d);
	}
	oracle_clear(&o);
}

/* At each border, and one byte around it. */
static void cut_everywhere(const struct known *k)
{
	const struct sound *s = &k->sound;
	struct damaged d = { .from = s, .data = s->data };
	char how[64];

	for (size_t at = 0; at < s->size; at += SOUND_BLOCK)
		for (d.size = at > 0 ? at - 1 : 0; d.size <= at + 1 && d.size < s->size; d.size++) {
			if (d.size != at && at % (8 * SOUND_BLOCK))
				continue;
			snprintf(how, sizeof(how), "cut at %zu", d.size);
			try_one(k, &d, false, how);
		}
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	char how[64];

	ORACLE_CHECK(argc > 1, "usage: oracle-damage DIRECTORY INPUTS [SEED]");
	oracle_open(&o);
	sound_list(argv[1], load);
	for (size_t i = 0; i < n_all; i++)
		cut_everywhere(&all[i]);
	for (unsigned long i = 0; i < n; i++) {
		_cleanup_(freep) unsigned char *data = NULL;
		struct damaged d = { 0 };
		const struct known *k;

		oracle_seed(seed + i);
		k = &all[oracle_random((uint32_t)n_all)];
		d.from = &k->sound;
		d.data = data = malloc(d.from->size + SOUND_MORE);
		d.size = d.from->size;
		ORACLE_CHECK(data, "memory");
		memcpy(data, d.from->data, d.size);
		sound_damage(&d);
		snprintf(how, sizeof(how), "seed %llu", (unsigned long long)(seed + i));
		try_one(k, &d, oracle_chance(25), how);
	}
	oracle_close(&o);
	for (size_t i = 0; i < n_all; i++)
		sound_deinit(&all[i].sound);
	printf("%lu damaged: %lu refused, %lu ready with the sound one's tree, %lu that their "
	       "format "
	       "has no sum for; none ready with a wrong tree\n",
	       n_refused + n_same + n_untold, n_refused, n_same, n_untold);
	return 0;
}
