/*
 * damaged-input: intact archives and images, and functions that damage them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/dataset/facts.h"

#define SOUND_BLOCK 512
#define SOUND_MORE 4096 /* bytes that damage may add */

struct sound {
	char *name;
	unsigned char *data;
	bool *covered; /* each byte: a sum is taken over it, by which extraction notices damage */
	size_t size;
	enum facts_format format; /* PLAIN: it is wrapped, and covered from end to end */
};

struct damaged {
	const struct sound *from;
	unsigned char *data; /* has room for from->size + SOUND_MORE */
	size_t size;
};

/* Of a zip nothing counts as covered: names and attributes have no sum. */
void sound_load(struct sound *s, const char *dir, const char *name);
void sound_deinit(struct sound *s);
/* Calls fn for the name of each file in a directory, of which there has to be one. */
void sound_list(const char *dir, void (*fn)(const char *dir, const char *name));

/* Some bytes changed, a run of zeros, a cut, more behind the end; of what is wrapped a part twice
 * or missing, too. */
void sound_damage(struct damaged *d);
/* Could a reader know that it is damaged? */
bool sound_can_be_told(const struct damaged *d);
