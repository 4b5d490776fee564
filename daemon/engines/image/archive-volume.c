/*
 * A file's reference is its number in the index.
 */
#include "daemon/engines/image/archive-volume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/image/volume.h"
#include "daemon/engines/image/zip-blocks.h"
#include "daemon/engines/image/zip-sums.h"

enum {
	ARCHIVE_BLOCK_SIZE = 128 << 10,
};

_Static_assert(ZIP_BLOCK_SIZE >= VOLUME_MIN_BLOCK, "the extents of a read have room");

struct archive_volume {
	struct volume volume;
	struct archive_index *index;
	struct zip_blocks *blocks; /* NULL: there are no deflated members */
	struct zip_sums *sums;	   /* NULL: there are no members with checksums to compare */
	int fd;
	struct stat st;
};

static const mode_t type_modes[] = {
	[MEMBER_FILE] = S_IFREG,
	[MEMBER_DIR] = S_IFDIR,
	[MEMBER_SYMLINK] = S_IFLNK,
};

static struct archive_volume *get_archive(struct volume *v)
{
	return (struct archive_volume *)v;
}

/* Returns 0, or -ESTALE if the archive has changed since it was indexed. */
static int check_unchanged(void *arg)
{
	const struct archive_volume *a = arg;
	struct stat st;

	/* The sandbox allows this system call, but not the one with a path, which fstat() uses in
	 * some libcs. */
	if (syscall(__NR_fstat, a->fd, &st) < 0)
		return -errno;
	return st.st_size == a->st.st_size && st.st_mtim.tv_sec == a->st.st_mtim.tv_sec &&
			       st.st_mtim.tv_nsec == a->st.st_mtim.tv_nsec
		       ? 0
		       : -ESTALE;
}

/* Returns the entry; NULL: the reference is not valid. */
static const struct archive_record *get_record(struct volume *v, uint64_t ref)
{
	return archive_index_get(get_archive(v)->index, ref);
}

static const char *get_text(struct volume *v, uint64_t at)
{
	return archive_index_get_text(get_archive(v)->index, at);
}

static const struct archive_piece *get_pieces(struct volume *v, const struct archive_record *rec)
{
	return archive_index_get_pieces(get_archive(v)->index, rec);
}

static int archive_volume_start(struct volume *v, const atomic_uint *n_idle, unsigned n_threads)
{
	return 0;
}

static int archive_volume_stat(struct volume *v, uint64_t ref, struct stat *st)
{
	const struct archive_record *rec = get_record(v, ref);
	uint64_t size, stored;

	if (!rec)
		return -EIO;
	size = rec->type == MEMBER_DIR ? 0 : rec->size;
	stored = rec->is_sparse ? get_pieces(v, rec)[rec->crc].at : size;
	*st = (struct stat){
		.st_ino = rec->number,
		/* Links have mode 0777, whatever the archive says, as after extraction. */
		.st_mode = type_modes[rec->type] | (rec->type == MEMBER_SYMLINK ? 0777 : rec->mode),
		.st_nlink = rec->n_links,
		.st_size = (off_t)size,
		.st_blksize = ARCHIVE_BLOCK_SIZE,
		.st_blocks = (blkcnt_t)((stored + 511) / 512),
		.st_mtim = { .tv_sec = rec->mtime, .tv_nsec = rec->mtime_ns },
	};
	st->st_atim = st->st_ctim = st->st_mtim;
	return 0;
}

static int get_dir(struct volume *v, uint64_t ref, const struct archive_record **dirp)
{
	*dirp = get_record(v, ref);
	if (!*dirp)
		return -EIO;
	return (*dirp)->type != MEMBER_DIR ? -ENOTDIR : 0;
}

static int archive_volume_get_numbers(struct volume *v, uint64_t dir, uint64_t *numberp,
				      uint64_t *parentp)
{
	const struct archive_record *rec;
	int r = get_dir(v, dir, &rec);

	if (r < 0)
		return r;
	*numberp = rec->number;
	*parentp = get_record(v, rec->parent)->number;
	return 0;
}

static void fill_dirent(struct volume *v, uint64_t ref, struct volume_dirent *ent)
{
	const struct archive_record *rec = get_record(v, ref);

	*ent = (struct volume_dirent){
		.ref = ref,
		.number = rec->number,
		.type = type_modes[rec->type],
		.name = get_text(v, rec->name),
	};
}

static int archive_volume_find(struct volume *v, uint64_t dir, const char *name,
			       struct volume_dirent *ent)
{
	const struct archive_record *rec;
	uint32_t i;
	int r = get_dir(v, dir, &rec);

	if (r < 0)
		return r;
	i = archive_index_find(get_archive(v)->index, rec, name);
	if (i == ARCHIVE_INDEX_NONE)
		return 0;
	fill_dirent(v, i, ent);
	return 1;
}

/* A cookie is the number of entries before it. */
static int archive_volume_list(struct volume *v, uint64_t dir, uint64_t cookie, volume_list_fn add,
			       void *arg)
{
	const struct archive_record *rec;
	struct volume_dirent ent;
	int r = get_dir(v, dir, &rec);

	if (r < 0)
		return r;
	for (uint64_t i = cookie; i < rec->size; i++) {
		fill_dirent(v, rec->start + i, &ent);
		ent.cookie = i + 1;
		if (!add(arg, &ent))
			break;
	}
	return 0;
}

static int archive_volume_read_link(struct volume *v, uint64_t ref,
				    char text[static VOLUME_MAX_SYMLINK + 1])
{
	const struct archive_record *rec = get_record(v, ref);

	if (!rec)
		return -EIO;
	if (rec->type != MEMBER_SYMLINK || rec->size > VOLUME_MAX_SYMLINK)
		return -EINVAL;
	memcpy(text, get_text(v, rec->start), rec->size + 1);
	return 0;
}

/* Reads size bytes from pos on, all of which exist. */
static int read_deflated(struct archive_volume *a, const struct archive_record *rec, uint64_t ref,
			 uint64_t pos, size_t size, struct volume_read *read)
{
	const struct zip_member m = {
		.id = (uint32_t)ref,
		.crc = rec->crc,
		.start = rec->start,
		.packed = rec->packed,
		.size = rec->size,
	};
	int r = 0;

	while (size > 0) {
		struct volume_extent *e = &read->extents[read->n_extents];
		size_t in = pos % ZIP_BLOCK_SIZE;
		size_t n = ZIP_BLOCK_SIZE - in < size ? ZIP_BLOCK_SIZE - in : size;

		*e = (struct volume_extent){ .size = n };
		r = zip_blocks_acquire(a->blocks, &m, pos / ZIP_BLOCK_SIZE, &e->block);
		if (r < 0)
			break;
		e->data = e->block->data + in;
		read->n_extents++;
		pos += n;
		size -= n;
	}
	if (r < 0)
		a->volume.ops->release(&a->volume, read);
	return r;
}

static int archive_volume_read(struct volume *v, uint64_t ref, uint64_t pos, size_t size,
			       struct volume_read *read)
{
	const struct archive_record *rec = get_record(v, ref);
	struct archive_volume *a = get_archive(v);

	if (!rec)
		return -EIO;
	if (rec->type != MEMBER_FILE)
		return -EINVAL;
	read->pos = pos;
	read->size = size;
	read->n_extents = 0;
	read->file[0] = ref;
	if (pos >= rec->size || size == 0)
		return 0;
	if (size > rec->size - pos)
		size = (size_t)(rec->size - pos);
	if (rec->is_deflated)
		return read_deflated(a, rec, ref, pos, size, read);
	if (a->sums && zip_sums_get_state(a->sums, (uint32_t)ref) == ZIP_SUMS_WRONG)
		return -EBADMSG;
	read->extents[read->n_extents++] = (struct volume_extent){ .offset = rec->start + pos,
								   .size = size };
	return 0;
}

static bool is_summed(const struct archive_volume *a, uint64_t ref)
{
	return a->sums && zip_sums_wants(a->sums, (uint32_t)ref);
}

/* Returns the archive's descriptor. Content that must be summed, and that of sparse files, is not
 * spliced, because this process would not see it. A change of the archive is noticed when the bytes
 * are in the pipe. A check before would double the number of requests to the file system. */
static int archive_volume_get_fd(struct volume *v, const struct volume_read *read)
{
	bool is_sparse = get_record(v, read->file[0])->is_sparse;
	struct archive_volume *a = get_archive(v);

	return is_sparse || is_summed(a, read->file[0]) ? -EOPNOTSUPP : a->fd;
}

static int archive_volume_check(struct volume *v)
{
	return check_unchanged(get_archive(v));
}

static int load_bytes(int fd, uint8_t *buf, size_t size, uint64_t offset)
{
	ssize_t n = fd_pread_all(fd, buf, size, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < size ? -EIO : 0;
}

/* Returns the number of the first piece that ends after pos; rec->crc: there is none. */
static uint32_t find_piece(const struct archive_piece *p, const struct archive_record *rec,
			   uint64_t pos)
{
	uint32_t from = 0, end = rec->crc;

	while (from < end) {
		uint32_t middle = from + (end - from) / 2;

		if (p[middle].pos + (p[middle + 1].at - p[middle].at) <= pos)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/* Returns the bytes of a piece that belong to a read, from *posp on. */
static size_t cut_piece(const struct archive_piece *p, const struct volume_read *read, uint64_t end,
			uint64_t *posp)
{
	uint64_t stop = p->pos + (p[1].at - p->at);

	*posp = p->pos > read->pos ? p->pos : read->pos;
	stop = stop < end ? stop : end;
	return *posp < stop ? (size_t)(stop - *posp) : 0;
}

/* Reads a sparse file. The data of its pieces is contiguous in the archive. It is read to the end
 * of the buffer, and moved from there to its places, which are never after it. The bytes between
 * are zeros. */
static int load_sparse(struct archive_volume *a, const struct archive_record *rec,
		       struct volume_read *read, uint8_t *buf)
{
	const struct archive_piece *p = archive_index_get_pieces(a->index, rec);
	const size_t size = read->extents[0].size;
	const uint64_t end = read->pos + size;
	uint32_t first = find_piece(p, rec, read->pos);
	size_t packed = 0, n, done = 0;
	uint8_t *from;
	uint64_t pos, at = 0;
	int r;

	for (uint32_t i = first; i < rec->crc && p[i].pos < end; i++) {
		n = cut_piece(&p[i], read, end, &pos);
		if (packed == 0)
			at = p[i].at + (pos - p[i].pos);
		packed += n;
	}
	from = buf + size - packed;
	r = load_bytes(a->fd, from, packed, rec->start + at);
	for (uint32_t i = first; i < rec->crc && p[i].pos < end && r == 0; i++) {
		n = cut_piece(&p[i], read, end, &pos);
		memset(buf + done, 0, (size_t)(pos - read->pos) - done);
		done = (size_t)(pos - read->pos);
		memmove(buf + done, from, n);
		from += n;
		done += n;
	}
	memset(buf + done, 0, r == 0 ? size - done : 0);
	return r;
}

/* Adds the checksums of a read whose content is in memory. */
static int add_sums(struct archive_volume *a, const struct volume_read *read)
{
	uint64_t ref = read->file[0], pos = read->pos;
	int r = 0;

	if (!is_summed(a, ref))
		return 0;
	for (size_t i = 0; i < read->n_extents && r == 0; i++) {
		const struct volume_extent *e = &read->extents[i];

		r = zip_sums_add(a->sums, (uint32_t)ref, pos, e->data, e->size);
		pos += e->size;
	}
	return r;
}

static int archive_volume_load(struct volume *v, struct volume_read *read, void *buf)
{
	struct archive_volume *a = get_archive(v);
	const struct archive_record *rec = get_record(v, read->file[0]);
	struct volume_extent *e = &read->extents[0];
	int r, changed;

	if (read->n_extents == 0 || e->data) /* all of the content is inflated */
		return 0;
	e->data = buf;
	r = rec->is_sparse ? load_sparse(a, rec, read, buf)
			   : load_bytes(a->fd, buf, e->size, e->offset);
	changed = check_unchanged(a); /* the archive may have become shorter */
	r = changed < 0 ? changed : r;
	return r < 0 ? r : add_sums(a, read);
}

static void archive_volume_release(struct volume *v, struct volume_read *read)
{
	for (size_t i = 0; i < read->n_extents; i++)
		if (read->extents[i].block)
			zip_blocks_release(get_archive(v)->blocks, read->extents[i].block);
	read->n_extents = 0;
}

static int archive_volume_get_path(struct volume *v, uint64_t ref, char *buf, size_t size)
{
	const struct archive_record *rec = get_record(v, ref);
	size_t at = size;

	if (!rec || size == 0)
		return -EIO;
	for (buf[--at] = '\0'; rec != get_record(v, ARCHIVE_INDEX_ROOT);
	     rec = get_record(v, rec->parent)) {
		size_t n = rec->name_size, slash = at < size - 1;

		if (at < n + slash)
			return -ENAMETOOLONG;
		if (slash)
			buf[--at] = '/';
		at -= n;
		memcpy(buf + at, get_text(v, rec->name), n);
	}
	memmove(buf, buf + at, size - at);
	return 0;
}

static void archive_volume_set_cache_size(struct volume *v, uint64_t size)
{
	if (get_archive(v)->blocks)
		zip_blocks_set_memory(get_archive(v)->blocks, size);
}

static void archive_volume_statfs(struct volume *v, struct statvfs *st)
{
	const struct archive_volume *a = get_archive(v);
	struct archive_counts counts;

	archive_index_get_counts(a->index, &counts);
	*st = (struct statvfs){
		.f_bsize = ARCHIVE_BLOCK_SIZE,
		.f_frsize = ARCHIVE_BLOCK_SIZE,
		.f_blocks = ((uint64_t)a->st.st_size + ARCHIVE_BLOCK_SIZE - 1) / ARCHIVE_BLOCK_SIZE,
		.f_files = counts.n_records,
		.f_namemax = VOLUME_MAX_NAME,
	};
}

static void archive_volume_free(struct volume *v)
{
	zip_blocks_free(get_archive(v)->blocks);
	zip_sums_free(get_archive(v)->sums);
	archive_index_free(get_archive(v)->index);
	free(v);
}

int archive_volume_new(struct volume **vp, struct archive_index *x, int fd, const struct stat *st,
		       size_t cache_size)
{
	static const struct volume_ops ops = {
		.start = archive_volume_start,
		.stat = archive_volume_stat,
		.get_path = archive_volume_get_path,
		.get_numbers = archive_volume_get_numbers,
		.find = archive_volume_find,
		.list = archive_volume_list,
		.read_link = archive_volume_read_link,
		.read = archive_volume_read,
		.get_fd = archive_volume_get_fd,
		.check = archive_volume_check,
		.load = archive_volume_load,
		.release = archive_volume_release,
		.set_cache_size = archive_volume_set_cache_size,
		.statfs = archive_volume_statfs,
		.free = archive_volume_free,
	};
	struct archive_volume *a = calloc(1, sizeof(*a));
	struct archive_counts counts;

	if (!a)
		return -ENOMEM;
	archive_index_get_counts(x, &counts);
	if ((counts.n_summed > 0 && zip_sums_new(&a->sums, x, fd) < 0) ||
	    (counts.n_deflated > 0 &&
	     zip_blocks_new(&a->blocks, fd, check_unchanged, a, cache_size) < 0)) {
		zip_sums_free(a->sums);
		free(a);
		return -ENOMEM;
	}
	a->volume = (struct volume){ .ops = &ops, .noun = "archive", .root = ARCHIVE_INDEX_ROOT };
	a->index = x;
	a->fd = fd;
	a->st = *st;
	*vp = &a->volume;
	return 0;
}
