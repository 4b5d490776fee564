/*
 * stage-index ARCHIVE OUT [nested]: writes the index of a plain tar (index-file.h). Started by
 * stagectl index. It appears under its name when it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/facts.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/index-file.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/tar-scan.h"

enum {
	INDEX_READERS = 24,
	INDEX_LOOK = 4096,
};

static int write_member(void *arg, const struct tar_scan_member *found, struct error *err)
{
	return index_writer_add(arg, found, err);
}

static int check_format(int fd, struct error *err)
{
	unsigned char buf[INDEX_LOOK];
	ssize_t n = pread(fd, buf, sizeof(buf), 0);

	if (n < 0)
		return error_errno(err, errno, "read it");
	if (magic_get_filter(buf, (size_t)n) != FILTER_NONE)
		return error_set(err, EINVAL, "it is compressed; only a plain tar can be mounted");
	if (magic_get_format(buf, (size_t)n) != FORMAT_TAR)
		return error_set(err, EINVAL, "it is no tar");
	return 0;
}

static int open_archive(const char *path, int *fdp, struct stat *st, struct error *err)
{
	*fdp = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (*fdp < 0 || fstat(*fdp, st) < 0)
		return error_errno(err, errno, "open it");
	if (!S_ISREG(st->st_mode))
		return error_set(err, EINVAL, "it is no file");
	return check_format(*fdp, err);
}

/* Gives the index the same read permissions as the archive; the group's only if both have one
 * group. */
static mode_t get_mode(int fd, const struct stat *archive)
{
	mode_t mode = archive->st_mode & 0444;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_gid != archive->st_gid)
		mode &= ~(mode_t)0040;
	return mode | S_IRUSR | S_IWUSR;
}

static int write_index(int fd, int archive, const struct stat *st, bool nested,
		       struct archive_counts *counts, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	_cleanup_(index_writer_freep) struct index_writer *w = NULL;
	struct tar_scan scan = {
		.fd = archive,
		.size = (uint64_t)st->st_size,
		.n_readers = INDEX_READERS,
		.has_member = write_member,
		.nested = nested,
	};
	struct stat now;
	int r;

	r = index_writer_new(&w, fd, st, nested, err);
	if (r == 0)
		r = archive_index_new(&x, st->st_mtim.tv_sec, err);
	scan.arg = w;
	if (r == 0)
		r = tar_scan(x, &scan, err);
	if (r == 0)
		r = archive_index_finish(x, NULL, err);
	if (r == 0)
		r = index_writer_finish(w, err);
	if (r < 0)
		return r;
	archive_index_get_counts(x, counts);
	if (fstat(archive, &now) < 0 || now.st_size != st->st_size ||
	    now.st_mtim.tv_sec != st->st_mtim.tv_sec || now.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
		return error_set(err, ESTALE, "it has changed while it was read");
	if (fchmod(fd, get_mode(fd, st)) < 0 || fsync(fd) < 0)
		return error_errno(err, errno, "write the index");
	return 0;
}

/* The temporary name of the index; "": not created yet. */
static char tmp[PATH_MAX];

static void on_signal(int sig)
{
	unlink(tmp);
	signal(sig, SIG_DFL);
	raise(sig); /* the signal is delivered when this handler returns */
}

/* Leaves ignored signals ignored, so that nohup works. */
static void set_signals(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	const struct sigaction act = { .sa_handler = on_signal };
	struct sigaction old;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
}

static int make(const char *path, const char *out, bool nested, struct archive_counts *counts,
		struct error *err)
{
	_cleanup_(fd_closep) int archive = -1, fd = -1;
	struct stat st;
	int r = open_archive(path, &archive, &st, err);

	if (r < 0)
		return r;
	if (snprintf(tmp, sizeof(tmp), "%s.XXXXXX", out) >= (int)sizeof(tmp))
		return error_set_hint(err,
				      error_set(err, ENAMETOOLONG, "%s is too long a name", out),
				      "move the tar to a directory with a shorter path");
	set_signals();
	fd = mkostemp(tmp, O_CLOEXEC); /* with mode 0600 */
	if (fd < 0)
		return error_errno(err, errno, "create %s", tmp);
	r = write_index(fd, archive, &st, nested, counts, err);
	if (r == 0 && rename(tmp, out) < 0)
		r = error_errno(err, errno, "rename %s", tmp);
	if (r < 0)
		unlink(tmp);
	return r;
}

int main(int argc, char **argv)
{
	struct archive_counts counts;
	struct error err = ERROR_INIT;

	file_size_limit_catch();
	if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "nested") != 0)) {
		fputs("usage: stage-index ARCHIVE OUT [nested]\nStarted by stagectl index.\n",
		      stderr);
		return STAGE_EXIT_USAGE;
	}
	if (make(argv[1], argv[2], argc == 4, &counts, &err) < 0) {
		error_prefix(&err, "%s", argv[1]);
		file_size_limit_explain(&err);
		fprintf(stderr, "stagectl: %s\n", err.text);
		return STAGE_EXIT_FAILED;
	}
	printf("%s: %llu %s\n", argv[2], (unsigned long long)counts.n_files,
	       count_word(counts.n_files, "file or link", "files and links"));
	return STAGE_EXIT_OK;
}
