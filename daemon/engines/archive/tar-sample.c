/*
 * Names that are too long for a header, and pax records, are members with bytes that make no file.
 * A size in pax records (more than 8 GiB) is not read: the chain of headers breaks there, and the
 * sample ends.
 */
#include "daemon/engines/archive/tar-sample.h"

#include <string.h>

#include "common/util/page.h"
#include "daemon/engines/archive/magic.h"

#define BLOCK 512
#define SIZE_AT 124
#define SIZE_SIZE 12
#define TYPE_AT 156

/* Reads octal digits, or a number to the base 256, whose first bit is set. Returns -1 if it is
 * neither. */
static int64_t read_size(const unsigned char *h)
{
	const unsigned char *p = h + SIZE_AT;
	int64_t v = 0;

	if (!(p[0] & 0x80))
		return magic_read_octal(p, SIZE_SIZE);
	if (p[0] != 0x80 || p[1] || p[2] || p[3] || (p[4] & 0x80))
		return -1;
	for (int i = 4; i < SIZE_SIZE; i++)
		v = v << 8 | p[i];
	return v;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static void count(struct tar_sample *s, unsigned char type, uint64_t size)
{
	switch (type) {
	case 'L': /* a long name or link, or pax records */
	case 'K':
	case 'x':
	case 'g':
	case 'X':
		return;
	case '1': /* a hard link is only another name */
		break;
	case '2':
	case '5':
		s->charge += page_get_size();
		break;
	default:
		s->charge += page_round_up(size);
	}
	s->n_files++;
}

/* Returns true for types with content. Links and directories have none, whatever their header
 * says. */
static bool has_content(unsigned char type)
{
	return type < '1' || type > '6';
}

void tar_sample_add(struct tar_sample *s, const void *data, size_t size, uint64_t at)
{
	static const unsigned char zeros[BLOCK];
	const unsigned char *h;
	int64_t n;

	while (!s->ended && !s->broken && s->next >= at && s->next - at <= size &&
	       size - (s->next - at) >= BLOCK) {
		h = (const unsigned char *)data + (s->next - at);
		n = read_size(h);
		if (!memcmp(h, zeros, BLOCK)) {
			s->ended = true;
		} else if (magic_get_format(h, BLOCK) != FORMAT_TAR || n < 0) {
			s->broken = true;
		} else {
			n = has_content(h[TYPE_AT]) ? n : 0;
			count(s, h[TYPE_AT], (uint64_t)n);
			s->next += BLOCK + round_up((uint64_t)n, BLOCK);
		}
	}
}

uint64_t tar_sample_estimate(const struct tar_sample *s, uint64_t size)
{
	double more;

	if (s->ended)
		return s->charge;
	if (s->next == 0 || s->next > size)
		return size; /* not a tar, or cut off: the sizes in its headers are not real */
	more = (double)s->charge / (double)s->next * (double)(size - s->next);
	/* a sparse file may claim a size of exabytes */
	return more < (double)INT64_MAX ? s->charge + (uint64_t)more : INT64_MAX;
}
