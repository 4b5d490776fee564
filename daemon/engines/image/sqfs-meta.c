/*
 * The block under the cursor stays borrowed until the cursor leaves it, so the entries of a
 * directory, or a block of inodes, need one look-up in the cache.
 */
#include "daemon/engines/image/sqfs-meta.h"

#include <errno.h>
#include <string.h>

#include "daemon/engines/image/sqfs-image.h"

void sqfs_meta_init(struct sqfs_meta *m, struct sqfs_image *img, struct sqfs_place place)
{
	*m = (struct sqfs_meta){ .img = img, .place = place };
}

void sqfs_meta_deinit(struct sqfs_meta *m)
{
	if (m->held)
		sqfs_image_put_meta(m->img, m->held);
	m->held = NULL;
}

/* Sets held to the block that contains the next byte. */
static int meta_hold(struct sqfs_meta *m)
{
	int r;

	if (m->held && m->place.pos < m->held->size)
		return 0;
	if (m->held) {
		/* A position after the end can only come from the image, not from reading. */
		if (m->place.pos > m->held->size)
			return -EIO;
		m->place = (struct sqfs_place){ .block = m->held->next };
		sqfs_meta_deinit(m);
	}
	r = sqfs_image_get_meta(m->img, m->place.block, &m->held);
	if (r < 0) {
		m->held = NULL;
		return r;
	}
	return m->place.pos < m->held->size ? 0 : meta_hold(m);
}

int sqfs_meta_read(struct sqfs_meta *m, void *buf, size_t size)
{
	uint8_t *p = buf;

	while (size > 0) {
		size_t n;
		int r = meta_hold(m);

		if (r < 0)
			return r;
		n = m->held->size - m->place.pos;
		if (n > size)
			n = size;
		if (p) {
			memcpy(p, m->held->data + m->place.pos, n);
			p += n;
		}
		m->place.pos += (uint32_t)n;
		size -= n;
	}
	return 0;
}
