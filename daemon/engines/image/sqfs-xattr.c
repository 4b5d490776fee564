/*
 * An inode has the number of an entry in the id table. The entry has the position and the number of
 * its attributes. Files with the same attributes have the same number. A long value that several
 * have lies elsewhere (XATTR_ELSEWHERE).
 *
 *	superblock:	offset of the header
 *	header:		start of the attributes (8 bytes), number of ids (4), unused (4), and for
 *			each metadata block of ids its offset (8)
 *	id:		place of the attributes (8), how many (4), their size (4)
 *	attribute:	kind (2), size of the name (2), name, size of the value (4), value
 */
#include "daemon/engines/image/sqfs-xattr.h"

#include <errno.h>
#include <string.h>

#include "common/util/le.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-meta.h"

enum {
	XATTR_OFFSET = 56, /* position of the table's offset in the superblock */
	XATTR_HEADER = 16,
	XATTR_ID = 16,
	XATTR_IDS_PER_BLOCK = SQFS_META_SIZE / XATTR_ID,
	XATTR_KIND = 0xff,
	XATTR_USER = 0,
	XATTR_ELSEWHERE = 0x100, /* the value is stored elsewhere, and this is its place */
	XATTR_PLACE = 8,
	XATTR_MAX_COUNT = 65536, /* maximum for a file: Linux lists no more bytes */
	XATTR_MAX_LOOKS = 4096,	 /* limit of a search for user attributes */
};

#define XATTR_PREFIX "user."

struct xattr_table {
	uint64_t ids;	/* offset of the list of their metadata blocks */
	uint64_t start; /* offset of the attributes */
	uint32_t n_ids;
};

/* A walk through the attributes of one id. */
struct xattr_walk {
	struct sqfs_image *img;
	uint64_t start;
	struct sqfs_meta m;
	uint32_t n_left;
};

struct xattr {
	unsigned kind;
	char name[SQFS_XATTR_MAX_NAME + 1]; /* with its prefix; only for user attributes */
	uint32_t size;			    /* size of the value, which must be read next */
};

static struct sqfs_place xattr_get_place(uint64_t start, uint64_t ref)
{
	return (struct sqfs_place){ start + (ref >> 16), ref & 0xffff };
}

/* Reads the header of the table. Returns 1; 0: the image has none; or -errno. */
static int xattr_read_table(struct sqfs_image *img, struct xattr_table *t)
{
	uint8_t offset[sizeof(uint64_t)], header[XATTR_HEADER];
	int r;

	r = sqfs_image_read(img, XATTR_OFFSET, offset, sizeof(offset));
	if (r < 0 || le_u64(offset) == SQFS_NO_TABLE)
		return r;
	r = sqfs_image_read(img, le_u64(offset), header, sizeof(header));
	if (r < 0)
		return r;
	t->ids = le_u64(offset) + XATTR_HEADER;
	t->start = le_u64(header);
	t->n_ids = le_u32(header + 8);
	return t->n_ids > 0;
}

static int xattr_begin(struct xattr_walk *w, struct sqfs_image *img, const struct xattr_table *t,
		       uint32_t id)
{
	uint8_t where[sizeof(uint64_t)], entry[XATTR_ID];
	struct sqfs_meta m;
	int r;

	if (id >= t->n_ids)
		return -EIO;
	r = sqfs_image_read(img, t->ids + id / XATTR_IDS_PER_BLOCK * sizeof(where), where,
			    sizeof(where));
	if (r < 0)
		return r;
	sqfs_meta_init(&m, img,
		       (struct sqfs_place){ le_u64(where), id % XATTR_IDS_PER_BLOCK * XATTR_ID });
	r = sqfs_meta_read(&m, entry, sizeof(entry));
	sqfs_meta_deinit(&m);
	if (r < 0 || le_u32(entry + 8) > XATTR_MAX_COUNT)
		return r < 0 ? r : -EIO;
	*w = (struct xattr_walk){ .img = img, .start = t->start, .n_left = le_u32(entry + 8) };
	sqfs_meta_init(&w->m, img, xattr_get_place(t->start, le_u64(entry)));
	return 0;
}

static void xattr_end(struct xattr_walk *w)
{
	sqfs_meta_deinit(&w->m);
}

/* Gets the next attribute, whose value must then be read or skipped. Returns 1; 0: there is none;
 * or -errno. */
static int xattr_next(struct xattr_walk *w, struct xattr *a)
{
	const size_t prefix = strlen(XATTR_PREFIX);
	uint8_t head[4], size[4];
	size_t n;
	int r;

	if (w->n_left == 0)
		return 0;
	w->n_left--;
	r = sqfs_meta_read(&w->m, head, sizeof(head));
	if (r < 0)
		return r;
	a->kind = le_u16(head);
	n = le_u16(head + 2);
	if (n == 0 || n > SQFS_XATTR_MAX_NAME - prefix)
		return -EIO;
	memcpy(a->name, XATTR_PREFIX, prefix);
	r = sqfs_meta_read(&w->m, a->name + prefix, n);
	a->name[prefix + n] = '\0';
	if (r == 0)
		r = sqfs_meta_read(&w->m, size, sizeof(size));
	a->size = r == 0 ? le_u32(size) : 0;
	if (r < 0 || a->size > SQFS_XATTR_MAX_SIZE || memchr(a->name, '\0', prefix + n))
		return r < 0 ? r : -EIO;
	return 1;
}

static bool xattr_is_users(const struct xattr *a)
{
	return (a->kind & XATTR_KIND) == XATTR_USER;
}

static int xattr_skip(struct xattr_walk *w, const struct xattr *a)
{
	return sqfs_meta_read(&w->m, NULL, a->size);
}

static int xattr_read_value(struct sqfs_meta *m, uint32_t n, void *buf, size_t size)
{
	int r;

	if (n > SQFS_XATTR_MAX_SIZE)
		return -EIO;
	if (n > size)
		return -ERANGE;
	r = sqfs_meta_read(m, buf, n);
	return r < 0 ? r : (int)n;
}

static int xattr_read_elsewhere(struct xattr_walk *w, const struct xattr *a, void *buf, size_t size)
{
	uint8_t ref[XATTR_PLACE], n[4];
	struct sqfs_meta m;
	int r;

	if (a->size != XATTR_PLACE)
		return -EIO;
	r = sqfs_meta_read(&w->m, ref, sizeof(ref));
	if (r < 0)
		return r;
	sqfs_meta_init(&m, w->img, xattr_get_place(w->start, le_u64(ref)));
	r = sqfs_meta_read(&m, n, sizeof(n));
	if (r == 0)
		r = xattr_read_value(&m, le_u32(n), buf, size);
	sqfs_meta_deinit(&m);
	return r;
}

/* Begins a walk through an inode's attributes. Returns 1; 0: it has none; or -errno. */
static int xattr_begin_inode(struct xattr_walk *w, struct sqfs_image *img,
			     const struct sqfs_inode *inode)
{
	struct xattr_table t;
	int r;

	if (inode->xattr == SQFS_NO_XATTR)
		return 0;
	r = xattr_read_table(img, &t);
	if (r == 1)
		r = xattr_begin(w, img, &t, inode->xattr);
	return r < 0 ? r : 1;
}

int sqfs_xattr_list(struct sqfs_image *img, const struct sqfs_inode *inode, char *buf, size_t size)
{
	struct xattr_walk w = { 0 };
	size_t used = 0, n;
	struct xattr a;
	int r;

	r = xattr_begin_inode(&w, img, inode);
	if (r <= 0)
		return r;
	while ((r = xattr_next(&w, &a)) == 1) {
		n = strlen(a.name) + 1;
		if (xattr_is_users(&a) && n > size - used)
			r = -ERANGE;
		else if (xattr_is_users(&a))
			used += (size_t)(stpcpy(buf + used, a.name) - (buf + used)) + 1;
		if (r == 1)
			r = xattr_skip(&w, &a);
		if (r < 0)
			break;
	}
	xattr_end(&w);
	return r < 0 ? r : (int)used;
}

int sqfs_xattr_get(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		   void *buf, size_t size)
{
	struct xattr_walk w = { 0 };
	struct xattr a;
	int r;

	r = xattr_begin_inode(&w, img, inode);
	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	while ((r = xattr_next(&w, &a)) == 1) {
		if (xattr_is_users(&a) && !strcmp(a.name, name)) {
			r = a.kind & XATTR_ELSEWHERE ? xattr_read_elsewhere(&w, &a, buf, size)
						     : xattr_read_value(&w.m, a.size, buf, size);
			xattr_end(&w);
			return r;
		}
		r = xattr_skip(&w, &a);
		if (r < 0)
			break;
	}
	xattr_end(&w);
	return r < 0 ? r : -ENODATA;
}

/* Returns 1 if the id has a user attribute, 0 if not, or -errno. Examines at most *n_looksp
 * attributes. */
static int xattr_id_is_used(struct sqfs_image *img, const struct xattr_table *t, uint32_t id,
			    unsigned *n_looksp)
{
	struct xattr_walk w = { 0 };
	struct xattr a;
	int r;

	r = xattr_begin(&w, img, t, id);
	while (r == 0 && *n_looksp > 0 && (r = xattr_next(&w, &a)) == 1) {
		--*n_looksp;
		r = xattr_is_users(&a) ? 1 : xattr_skip(&w, &a);
	}
	xattr_end(&w);
	return r;
}

bool sqfs_xattr_is_used(struct sqfs_image *img)
{
	unsigned n_looks = XATTR_MAX_LOOKS;
	struct xattr_table t;
	int r;

	r = xattr_read_table(img, &t);
	if (r <= 0)
		return r < 0;
	for (uint32_t id = 0; r == 1 && id < t.n_ids; id++) {
		if (n_looks == 0)
			return true;
		n_looks--;
		if (xattr_id_is_used(img, &t, id, &n_looks) != 0)
			return true;
	}
	return false;
}
