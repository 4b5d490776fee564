/*
 * Lines are collected in a buffer. The buffer is written when it is full or one second old,
 * because small writes are slow on scratch file systems. If the mover is killed, the files of the
 * lines in the buffer are copied again.
 */
#include "daemon/mover/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define FLUSH_MS 1000

struct record {
	pthread_mutex_t lock;
	FILE *file;
	off_t began;	  /* offset of the first line of this mover */
	uint64_t n_lines; /* number of its lines that belong into a manifest */
	uint64_t flushed_ms;
};

static void write_path(FILE *f, const char *path)
{
	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		if (*p <= ' ' || *p == '%' || *p == 0x7f)
			fprintf(f, "%%%02x", *p);
		else
			fputc(*p, f);
	}
	fputc('\n', f);
}

static void write_time(FILE *f, const struct stat *st)
{
	fprintf(f, "%lld.%u ", (long long)st->st_mtim.tv_sec, (unsigned)st->st_mtim.tv_nsec);
}

static void write_mode(FILE *f, const struct stat *st)
{
	fprintf(f, "%o ", (unsigned)st->st_mode & RECORD_MODE);
}

static FILE *open_file(int dirfd, const char *name, int flags, const char *mode)
{
	_cleanup_(fd_closep) int fd = -1;
	FILE *f;

	fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd >= 0 ? fdopen(fd, mode) : NULL;
	if (f)
		(void)steal_fd(&fd);
	return f;
}

int record_open(struct record **rp, int dirfd, const char *name, const char *kind,
		const char *source, struct error *err)
{
	_cleanup_(record_closep) struct record *r = calloc(1, sizeof(*r));

	if (!r)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&r->lock, NULL);
	r->file = open_file(dirfd, name, O_RDWR | O_CREAT, "r+");
	if (!r->file)
		return error_errno(err, errno, "open %s", name);
	if (fseeko(r->file, 0, SEEK_END) < 0)
		return error_errno(err, errno, "read %s", name);
	if (ftello(r->file) > 0)
		fputc('\n', r->file); /* ends the last line, which may be incomplete */
	fprintf(r->file, "s %s ", kind);
	write_path(r->file, source);
	if (fflush(r->file))
		return error_errno(err, errno, "write %s", name);
	r->began = ftello(r->file);
	r->flushed_ms = clock_ms();
	*rp = steal_ptr(r);
	return 0;
}

void record_close(struct record *r)
{
	if (!r)
		return;
	if (r->file)
		fclose(r->file);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* Ends a line and flushes it if the last flush is long ago. The caller holds the lock. */
static int end_line(struct record *r, struct error *err)
{
	uint64_t now = clock_ms();

	if (now >= r->flushed_ms + FLUSH_MS) {
		fflush(r->file);
		r->flushed_ms = now;
	}
	return ferror(r->file) ? error_errno(err, errno ? errno : EIO, "write the journal") : 0;
}

static void write_sums(FILE *f, const struct record_sum *sums, size_t n)
{
	if (n == 0)
		fputs("- ", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%c", sums[i].text, i + 1 < n ? ',' : ' ');
}

int record_add(struct record *r, char type, const struct stat *st, const struct record_sum *sums,
	       size_t n_sums, const char *path, struct error *err)
{
	int code;

	pthread_mutex_lock(&r->lock);
	fprintf(r->file, "%c ", type);
	if (type == 'f' || type == 'h')
		fprintf(r->file, "%llu ", (unsigned long long)st->st_size);
	write_time(r->file, st);
	if (type != 'l')
		write_mode(r->file, st);
	if (type == 'f')
		write_sums(r->file, sums, n_sums);
	write_path(r->file, *path ? path : ".");
	r->n_lines++;
	code = end_line(r, err);
	pthread_mutex_unlock(&r->lock);
	return code;
}

int record_add_piece(struct record *r, const struct stat *st, size_t index,
		     const struct record_sum *sum, const char *path, struct error *err)
{
	int code;

	pthread_mutex_lock(&r->lock);
	fprintf(r->file, "p %llu ", (unsigned long long)st->st_size);
	write_time(r->file, st);
	fprintf(r->file, "%zu %s ", index, sum->text);
	write_path(r->file, path);
	code = end_line(r, err);
	pthread_mutex_unlock(&r->lock);
	return code;
}

/* Copies this mover's lines except those for pieces, which only the next mover needs. */
static int copy_lines(struct record *r, FILE *to)
{
	_cleanup_(freep) char *line = NULL;
	size_t size = 0;
	ssize_t n;

	if (fflush(r->file) || fseeko(r->file, r->began, SEEK_SET) < 0)
		return -errno;
	while ((n = getline(&line, &size, r->file)) > 0)
		if (line[0] != 'p')
			fwrite(line, 1, (size_t)n, to);
	return ferror(r->file) || ferror(to) ? -EIO : 0;
}

int record_write_manifest(struct record *r, int dirfd, const char *name, const char *kind,
			  const char *source, struct error *err)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char tmp[256];
	int code;

	snprintf(tmp, sizeof(tmp), "%s.new", name);
	f = open_file(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC, "w");
	if (!f)
		return error_errno(err, errno, "create %s", tmp);
	fprintf(f, "stage-data-copy 2 %s\ns %s ", sum_name, kind);
	write_path(f, source);
	code = copy_lines(r, f);
	if (code < 0)
		return error_errno(err, -code, "write %s", tmp);
	fprintf(f, "e %llu\n", (unsigned long long)r->n_lines + 2);
	if (fflush(f) || fsync(fileno(f)) < 0 || renameat(dirfd, tmp, dirfd, name) < 0)
		return error_errno(err, errno, "write %s", name);
	return 0;
}
