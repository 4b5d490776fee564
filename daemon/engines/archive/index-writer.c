/*
 * The head is written last, when all of it is known.
 */
#include "daemon/engines/archive/index-file.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/fnv.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/index-format.h"
#include "daemon/engines/archive/tar-scan.h"

struct index_writer {
	int fd;
	uint64_t at;
	struct file_head head;
	size_t n;
	unsigned char buf[INDEX_BUFFER];
};

int index_writer_new(struct index_writer **wp, int fd, const struct stat *st, bool nested,
		     struct error *err)
{
	struct index_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return error_set(err, ENOMEM, "no memory to write the index");
	w->fd = fd;
	w->at = sizeof(w->head);
	memcpy(w->head.magic, INDEX_MAGIC, sizeof(w->head.magic));
	w->head.size = (uint64_t)st->st_size;
	w->head.mtime = st->st_mtim.tv_sec;
	w->head.mtime_ns = (uint64_t)st->st_mtim.tv_nsec;
	w->head.sum = FNV_INIT;
	w->head.nested = nested;
	*wp = w;
	return 0;
}

void index_writer_free(struct index_writer *w)
{
	free(w);
}

static int write_at(int fd, const void *data, size_t size, uint64_t at, struct error *err)
{
	int r = fd_pwrite_all(fd, data, size, at);

	return r < 0 ? error_errno(err, -r, "write the index") : 0;
}

static int flush(struct index_writer *w, struct error *err)
{
	int r = write_at(w->fd, w->buf, w->n, w->at, err);

	w->at += w->n;
	w->n = 0;
	return r;
}

static void put(struct index_writer *w, const void *data, size_t size)
{
	memcpy(w->buf + w->n, data, size);
	w->n += size;
	w->head.bytes += size;
	w->head.sum = fnv_add(w->head.sum, data, size);
}

static int make_room(struct index_writer *w, size_t size, struct error *err)
{
	return sizeof(w->buf) - w->n < size ? flush(w, err) : 0;
}

/* Writes the pieces. The size of a piece is the distance to the next one in the archive. */
static int put_pieces(struct index_writer *w, const struct tar_scan_member *found,
		      struct error *err)
{
	const struct archive_piece *p = found->pieces;
	uint64_t n = htole64(found->n_pieces), end;
	struct file_piece fp;
	int r = make_room(w, sizeof(n), err);

	if (r == 0)
		put(w, &n, sizeof(n));
	for (size_t i = 0; i < found->n_pieces && r == 0; i++, p++) {
		end = i + 1 < found->n_pieces ? p[1].at : found->packed;
		fp = (struct file_piece){ htole64(p->pos), htole64(end - p->at) };
		r = make_room(w, sizeof(fp), err);
		if (r == 0)
			put(w, &fp, sizeof(fp));
	}
	return r;
}

int index_writer_add(struct index_writer *w, const struct tar_scan_member *found, struct error *err)
{
	const struct member *m = found->member;
	size_t path_size = strlen(m->path), link_size = m->link ? strlen(m->link) : 0;
	struct file_member fm = {
		.start = htole64(m->type == MEMBER_FILE && m->size > 0 ? found->start : 0),
		.size = htole64(m->size),
		.mtime = (int64_t)htole64((uint64_t)m->mtime),
		.mtime_ns = htole32((uint32_t)m->mtime_ns),
		.path_size = htole16((uint16_t)path_size),
		.link_size = htole16((uint16_t)link_size),
		.mode = htole16((uint16_t)(m->mode & 07777)),
		.depth = htole16((uint16_t)found->depth),
	};
	int r;

	while (file_types[fm.type].type != m->type ||
	       file_types[fm.type].is_opened != found->is_opened ||
	       file_types[fm.type].is_sparse != m->sparse)
		fm.type++;
	fm.type = htole16(fm.type);
	if (path_size > INDEX_MAX_TEXT || link_size > INDEX_MAX_TEXT)
		return error_set(err, ENAMETOOLONG, "%.100s… has too long a name", m->path);
	r = make_room(w, sizeof(fm) + path_size + link_size, err);
	if (r < 0)
		return r;
	put(w, &fm, sizeof(fm));
	put(w, m->path, path_size);
	if (link_size > 0)
		put(w, m->link, link_size);
	w->head.n_members++;
	w->head.n_inner += found->depth > 0;
	return m->sparse ? put_pieces(w, found, err) : 0;
}

int index_writer_finish(struct index_writer *w, struct error *err)
{
	struct file_head h = w->head;
	int r = flush(w, err);

	h.size = htole64(h.size);
	h.mtime = (int64_t)htole64((uint64_t)h.mtime);
	h.mtime_ns = htole64(h.mtime_ns);
	h.n_members = htole64(h.n_members);
	h.bytes = htole64(h.bytes);
	h.sum = htole64(h.sum);
	h.n_inner = htole32(h.n_inner);
	h.nested = htole32(h.nested);
	return r < 0 ? r : write_at(w->fd, &h, sizeof(h), 0, err);
}
