#include "tests/fuzz/damaged-input.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "daemon/engines/archive/magic.h"
#include "tests/fuzz/oracle.h"

static bool is_header(const unsigned char *h)
{
	return magic_get_format(h, SOUND_BLOCK) == FORMAT_TAR;
}

static void cover_tar(struct sound *s)
{
	size_t at = 0;

	while (at + SOUND_BLOCK <= s->size && is_header(s->data + at)) {
		const unsigned char *h = s->data + at;
		int64_t n = magic_read_octal(h + 124, 12);
		bool more = h[156] == 'S' && h[482]; /* blocks with more of its map of holes */

		memset(s->covered + at, true, SOUND_BLOCK);
		for (at += SOUND_BLOCK; more; at += SOUND_BLOCK)
			more = s->data[at + 504];
		at += h[156] < '1' || h[156] > '6'
			      ? ((size_t)n + SOUND_BLOCK - 1) / SOUND_BLOCK * SOUND_BLOCK
			      : 0;
	}
	/* from the end on nothing may stand there but zeros */
	memset(s->covered + at, true, s->size - at);
}

void sound_load(struct sound *s, const char *dir, const char *name)
{
	_cleanup_(freep) char *path = NULL;

	ORACLE_CHECK(asprintf(&path, "%s/%s", dir, name) > 0, "%s", name);
	s->name = strdup(name);
	s->data = oracle_read_file(path, &s->size);
	s->format = magic_get_filter(s->data, s->size) ? FORMAT_PLAIN
						       : magic_get_format(s->data, s->size);
	s->covered = s->format == FORMAT_SQUASHFS ? oracle_cover_image(s->data, s->size)
						  : calloc(s->size + 1, sizeof(*s->covered));
	ORACLE_CHECK(s->name && s->covered, "memory");
	if (s->format == FORMAT_TAR)
		cover_tar(s);
	else if (s->format == FORMAT_PLAIN)
		memset(s->covered, true, s->size);
}

void sound_deinit(struct sound *s)
{
	free(s->name);
	free(s->data);
	free(s->covered);
	*s = (struct sound){ 0 };
}

void sound_list(const char *dir, void (*fn)(const char *dir, const char *name))
{
	_cleanup_(dir_closep) DIR *d = opendir(dir);
	struct dirent *e;
	size_t n = 0;

	ORACLE_CHECK(d, "%s", dir);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		fn(dir, e->d_name);
		n++;
	}
	ORACLE_CHECK(n > 0, "%s is empty", dir);
}

static bool is_end(const struct damaged *d, size_t at)
{
	while (at < d->size && !d->data[at])
		at++;
	return at == d->size;
}

bool sound_can_be_told(const struct damaged *d)
{
	const struct sound *s = d->from;
	size_t n = d->size < s->size ? d->size : s->size;

	if (d->size != s->size && s->format != FORMAT_SQUASHFS)
		return true;
	if (d->size < s->size)
		return true;
	for (size_t i = 0; i < n; i++) {
		size_t block = i / SOUND_BLOCK * SOUND_BLOCK;

		if (d->data[i] == s->data[i])
			continue;
		if (!s->covered[i])
			return false;
		if (s->format == FORMAT_TAR && (is_header(d->data + block) || is_end(d, block)))
			return false;
	}
	return true;
}

void sound_damage(struct damaged *d)
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
