/*
 * Archives, by libarchive. The bytes after the end of a tar pass through this file. libarchive
 * takes a tar that is cut off between two members for a complete one, and reports nothing about
 * what follows the first end. Both have cost users half a dataset.
 *
 * The tar reader's position after its end is exact: it is what was consumed, not what was read
 * ahead. tail keeps the bytes before it, which have to be the two blocks of zeros.
 */
#include "daemon/engines/archive/decode.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <archive.h>
#include <archive_entry.h>

#include "common/util/error.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/decode-internal.h"
#include "daemon/engines/archive/seek-file.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/archive/zip-names.h"

#define TAR_BLOCK 512
#define TAR_END_SIZE (2 * TAR_BLOCK)

/*
 * Names are bytes. In the plain "C" locale, the tar reader cannot convert them and returns them
 * unchanged. In a UTF-8 locale it would compose characters, so that two files could get one name.
 * The zip reader must convert names that are marked as UTF-8, and fails if it cannot, so it gets a
 * UTF-8 locale.
 */
static locale_t zip_locale;

struct decode {
	struct archive *a;
	struct stream *in;	/* NULL: reads a file */
	struct seek_file *file; /* the file of a zip; NULL: reads a stream */
	struct error in_error;
	bool is_tar;
	const struct zip_names *names; /* only for a zip in a file; NULL: its directory is
					* damaged */
	size_t n_members;
	bool is_empty_zip;
	bool is_empty; /* the present member has no data, whatever its method produces */
	/* of the present member: where its next piece may begin, and its end */
	uint64_t next, end;
	/* position in the stream: lent bytes, the last block, and the end of the block before it */
	uint64_t lent;
	const unsigned char *block;
	size_t block_size;
	unsigned char tail[TAR_END_SIZE];
};

/* Keeps the end of the present block, before the next one replaces it. */
static void keep_tail(struct decode *d)
{
	size_t n = d->block_size;

	if (n >= TAR_END_SIZE) {
		memcpy(d->tail, d->block + n - TAR_END_SIZE, TAR_END_SIZE);
	} else if (n > 0) {
		memmove(d->tail, d->tail + n, TAR_END_SIZE - n);
		memcpy(d->tail + TAR_END_SIZE - n, d->block, n);
	}
}

static la_ssize_t tar_read(struct archive *a, void *arg, const void **datap)
{
	struct decode *d = arg;
	ssize_t n;

	keep_tail(d);
	d->block_size = 0;
	n = stream_next(d->in, datap, &d->in_error);
	if (n < 0) {
		archive_set_error(a, (int)-n, "%s", d->in_error.text);
		return -1;
	}
	d->block = *datap;
	d->block_size = (size_t)n;
	d->lent += (uint64_t)n;
	return n;
}

static struct decode *decode_new(struct stream *in, struct error *err)
{
	struct decode *d = calloc(1, sizeof(*d));

	if (!d || !(d->a = archive_read_new())) {
		free(d);
		decode_error_new(err);
		return NULL;
	}
	d->in = in;
	memset(d->tail, 0xff, sizeof(d->tail));
	return d;
}

/* r: result of archive_read_open*(). After a failure, in still belongs to the caller. */
static int finish_open(struct decode *d, int r, struct decode **dp, struct error *err)
{
	if (r == ARCHIVE_OK) {
		*dp = d;
		return 0;
	}
	r = decode_take_error(d->a, &d->in_error, err);
	d->in = NULL;
	decode_close(d);
	return r;
}

int decode_open_tar(struct decode **dp, struct stream *in, struct error *err)
{
	struct decode *d = decode_new(in, err);

	if (!d)
		return -ENOMEM;
	d->is_tar = true;
	archive_read_support_format_tar(d->a);
	return finish_open(d, archive_read_open(d->a, d, NULL, tar_read, NULL), dp, err);
}

static void make_zip_locale(void)
{
	if (!zip_locale)
		zip_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static la_ssize_t zip_read(struct archive *a, void *arg, const void **datap)
{
	struct decode *d = arg;
	ssize_t n = seek_file_read(d->file, datap, &d->in_error);

	if (n < 0)
		archive_set_error(a, (int)-n, "%s", d->in_error.text);
	return n < 0 ? -1 : n;
}

static la_int64_t zip_skip(struct archive *a, void *arg, la_int64_t n)
{
	seek_file_skip(((struct decode *)arg)->file, (uint64_t)n);
	return n;
}

static la_int64_t zip_seek(struct archive *a, void *arg, la_int64_t offset, int whence)
{
	int64_t at = seek_file_seek(((struct decode *)arg)->file, offset, whence);

	return at < 0 ? ARCHIVE_FATAL : at;
}

int decode_open_zip_file(struct decode **dp, struct stage_io *io, int fd, struct error *err)
{
	struct decode *d = decode_new(NULL, err);
	int r;

	if (!d)
		return -ENOMEM;
	make_zip_locale();
	r = seek_file_new(&d->file, io, fd, err);
	if (r < 0) {
		decode_close(d);
		return r;
	}
	d->names = seek_file_get_names(d->file);
	d->is_empty_zip = d->names && !zip_names_get(d->names, 0);
	if (d->is_empty_zip) { /* libarchive cannot read an empty zip */
		*dp = d;
		return 0;
	}
	archive_read_support_format_zip_seekable(d->a);
	archive_read_set_callback_data(d->a, d);
	archive_read_set_read_callback(d->a, zip_read);
	archive_read_set_skip_callback(d->a, zip_skip);
	archive_read_set_seek_callback(d->a, zip_seek);
	return finish_open(d, archive_read_open1(d->a), dp, err);
}

int decode_open_zip_stream(struct decode **dp, struct stream *in, struct error *err)
{
	struct decode *d = decode_new(in, err);

	if (!d)
		return -ENOMEM;
	make_zip_locale();
	archive_read_support_format_zip_streamable(d->a);
	return finish_open(d, archive_read_open(d->a, d, NULL, tar_read, NULL), dp, err);
}

void decode_close(struct decode *d)
{
	if (!d)
		return;
	archive_read_free(d->a);
	stream_close(d->in);
	seek_file_free(d->file);
	free(d);
}

static enum member_type get_type(struct archive_entry *e)
{
	if (archive_entry_hardlink(e))
		return MEMBER_HARDLINK;
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return MEMBER_FILE;
	case AE_IFDIR:
		return MEMBER_DIR;
	case AE_IFLNK:
		return MEMBER_SYMLINK;
	case 0: /* libarchive has no type for these */
		return archive_entry_size(e) > 0 ? MEMBER_PART : MEMBER_NO_LINK;
	default:
		return MEMBER_OTHER;
	}
}

/* libarchive reads "-1.25" as -1 s plus 0.25 s, and cannot distinguish "-0.5" from "0.5". */
static void fix_pax_time(const struct decode *d, struct member *m)
{
	if (!d->is_tar || m->mtime >= 0 || m->mtime_ns <= 0)
		return;
	m->mtime--;
	m->mtime_ns = 1000000000L - m->mtime_ns;
}

static void take_member(struct member *m, struct archive_entry *e)
{
	*m = (struct member){
		.type = get_type(e),
		.path = archive_entry_pathname(e),
		.mode = archive_entry_perm(e),
		.mtime = archive_entry_mtime(e),
		.mtime_ns = archive_entry_mtime_nsec(e),
		.has_mtime = archive_entry_mtime_is_set(e),
		.size = archive_entry_size_is_set(e) && archive_entry_size(e) > 0
				? (uint64_t)archive_entry_size(e)
				: 0,
		.sparse = archive_entry_sparse_count(e) > 0,
	};
	if (m->type == MEMBER_HARDLINK)
		m->link = archive_entry_hardlink(e);
	else if (m->type == MEMBER_SYMLINK)
		m->link = archive_entry_symlink(e);
}

static int refuse_encrypted(const char *path, struct error *err)
{
	error_set(err, EINVAL, "%s is encrypted", path);
	return error_set_hint(err, -EINVAL, "make the archive without a password");
}

/* Finds the entry of libarchive's present member: it is the next one by position. The position up
 * to which libarchive has read shows its place. */
static int take_entry(struct decode *d, struct member *m, struct error *err)
{
	const struct zip_entry *e, *next;
	uint64_t at = (uint64_t)archive_filter_bytes(d->a, 0);

	if (!d->file)
		return 0;
	e = d->names ? zip_names_get(d->names, d->n_members++) : NULL;
	next = e ? zip_names_get(d->names, d->n_members) : NULL;
	/* for a link, its target and some more bytes were read */
	if (!e || at <= e->at || (next && at > next->at && m->type != MEMBER_SYMLINK))
		return error_set(err, EBADMSG, "no sound list of its files");
	m->path = e->name;
	if (m->type == MEMBER_FILE && e->name[0] && e->name[strlen(e->name) - 1] == '/') {
		m->type = MEMBER_DIR;
		m->mode = 0755;
	}
	if (!e->is_unix)
		m->mode = e->dos_mode;
	/* libarchive computes no checksum without content */
	if (m->type == MEMBER_FILE && e->size == 0 && e->crc != 0)
		return error_set(err, EBADMSG, "%s has a checksum, and no content", m->path);
	d->is_empty = e->size == 0 && e->crc == 0;
	m->entry = e;
	m->start = at;
	return 0;
}

/* libarchive has just read a member's header. It takes a sparse file in star's dialect for a plain
 * file, whose content would be the pieces without the holes. */
static int check_star(const struct decode *d, const struct member *m, struct error *err)
{
	uint64_t unread = d->lent - (uint64_t)archive_filter_bytes(d->a, 0);
	unsigned char header[TAR_BLOCK];
	size_t in_block, in_tail;
	struct untar_header h;

	if (!d->is_tar || unread > d->block_size)
		return 0;
	in_block = d->block_size - (size_t)unread;
	if (in_block > TAR_BLOCK)
		in_block = TAR_BLOCK;
	in_tail = TAR_BLOCK - in_block;
	memcpy(header, d->tail + TAR_END_SIZE - in_tail, in_tail);
	memcpy(header + in_tail, d->block + d->block_size - unread - in_block, in_block);
	if (untar_header_read(header, &h) == UNTAR_STAR_SPARSE)
		return untar_reader_refuse_star(m->path, err);
	return 0;
}

int decode_next(struct decode *d, struct member *m, struct error *err)
{
	locale_t old = (locale_t)0;
	struct archive_entry *e;
	int r;

	if (d->is_empty_zip)
		return 0;
	if (!d->is_tar && zip_locale)
		old = uselocale(zip_locale);
	r = archive_read_next_header(d->a, &e);
	if (old)
		uselocale(old);
	if (r == ARCHIVE_EOF)
		return d->names && zip_names_get(d->names, d->n_members)
			       ? error_set(err, EBADMSG, "no sound list of its files")
			       : 0;
	/* warnings are about owners, attributes and ACLs, which are not staged */
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return decode_take_error(d->a, &d->in_error, err);
	take_member(m, e);
	fix_pax_time(d, m);
	r = take_entry(d, m, err);
	if (r < 0)
		return r;
	if (!m->path || ((m->type == MEMBER_SYMLINK || m->type == MEMBER_HARDLINK) && !m->link))
		return error_set(err, EBADMSG, "a member has a name that can't be read");
	r = check_star(d, m, err);
	if (r < 0)
		return r;
	if (archive_entry_size_is_set(e) && archive_entry_size(e) < 0)
		return error_set(err, EBADMSG, "%s has a negative size", m->path);
	if (archive_entry_is_encrypted(e))
		return refuse_encrypted(m->path, err);
	d->next = 0;
	d->end = archive_entry_size_is_set(e) ? m->size : INT64_MAX;
	return 1;
}

int decode_read(struct decode *d, const void **datap, size_t *sizep, uint64_t *offsetp,
		struct error *err)
{
	la_int64_t offset;
	int r;

	if (d->is_empty)
		return 0;
	r = archive_read_data_block(d->a, datap, sizep, &offset);
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return decode_take_error(d->a, &d->in_error, err);
	if (offset < 0)
		return error_set(err, EBADMSG, "a piece of a file has a negative offset");
	/* libarchive does not check the positions of a sparse file, and not the sizes in a zip. */
	if (*sizep > 0 && ((uint64_t)offset < d->next || (uint64_t)offset > d->end ||
			   *sizep > d->end - (uint64_t)offset))
		return error_set(err, EBADMSG, "%s",
				 d->is_tar ? "the pieces of a file overlap or are beyond its end"
					   : "a file is longer " DAMAGE_ZIP_SIZE);
	if (*sizep > 0)
		d->next = (uint64_t)offset + *sizep;
	*offsetp = (uint64_t)offset;
	return 1;
}

static bool is_zero(const unsigned char *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Returns true if the bytes of the last block before `consumed`, with tail before them, end in
 * zeros. */
static bool ends_in_zeros(const struct decode *d, size_t consumed_of_block)
{
	size_t in_block = consumed_of_block < TAR_END_SIZE ? consumed_of_block : TAR_END_SIZE;
	size_t in_tail = TAR_END_SIZE - in_block;

	return is_zero(d->block + consumed_of_block - in_block, in_block) &&
	       is_zero(d->tail + TAR_END_SIZE - in_tail, in_tail);
}

int decode_finish(struct decode *d, const char **odd_end, struct error *err)
{
	uint64_t consumed = (uint64_t)archive_filter_bytes(d->a, 0);
	const void *data;
	ssize_t n;
	size_t of_block;

	if (!d->is_tar || !d->in)
		return 0;
	if (consumed > d->lent || d->lent - consumed > d->block_size)
		return untar_reader_refuse_no_end(odd_end, err);
	of_block = d->block_size - (size_t)(d->lent - consumed);
	if (!ends_in_zeros(d, of_block))
		return untar_reader_refuse_no_end(odd_end, err);
	if (!is_zero(d->block + of_block, d->block_size - of_block))
		n = 1;
	else
		while ((n = stream_next(d->in, &data, err)) > 0 && is_zero(data, (size_t)n))
			;
	if (n > 0)
		return untar_reader_refuse_more(odd_end, err);
	return (int)n;
}
