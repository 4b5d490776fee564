/*
 * If several processes make the same OUT, one of them works and the others wait for its flock on
 * OUT.lock. The holder removes the lock file, so a process that gets the lock checks whether its
 * file still has that name. If the file system has no flock (some Lustre mounts), no lock is used.
 * The result is correct nevertheless, but the work may be done twice.
 */
#include "client/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/out-file.h"
#include "client/output.h"
#include "client/pack.h"
#include "client/progress-bar.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/suffix.h"

enum { OPT_IF_MISSING = 256, OPT_SHARDS, OPT_FORCE, OPT_LINKS };

static const struct option options[] = {
	{ "if-missing", no_argument, NULL, OPT_IF_MISSING },
	{ "shards", required_argument, NULL, OPT_SHARDS },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "links", required_argument, NULL, OPT_LINKS },
	{ "quiet", no_argument, NULL, 'q' },
	{ 0 },
};

struct lock {
	int fd; /* -1: none */
	char path[PATH_MAX];
};

static int lock_take(struct lock *l, const char *out, struct error *err)
{
	struct stat mine, there;

	if (snprintf(l->path, sizeof(l->path), "%s.lock", out) >= (int)sizeof(l->path))
		return error_set_hint(err,
				      error_set(err, ENAMETOOLONG, "%s is too long a name", out),
				      "write to a shorter path");
	for (;;) {
		l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (l->fd < 0)
			return error_errno(err, errno, "create %s", l->path);
		if (flock(l->fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK) {
				close(steal_fd(&l->fd));
				unlink(l->path);
				return 0;
			}
			output_error("another one is making %s; waiting for it", out);
			if (flock(l->fd, LOCK_EX) < 0)
				return error_errno(err, errno, "lock %s", l->path);
		}
		if (fstat(l->fd, &mine) == 0 && stat(l->path, &there) == 0 &&
		    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			return 0;
		close(steal_fd(&l->fd));
	}
}

static void lock_release(struct lock *l)
{
	if (l->fd < 0)
		return;
	unlink(l->path);
	close(steal_fd(&l->fd));
}

static bool has_end(const char *out, const char *end)
{
	size_t n = strlen(out), n_end = strlen(end);

	return n > n_end && !strcmp(out + n - n_end, end);
}

/* Returns whether the name is that of an archive. An image with such a name would be mistaken for
 * an archive. */
static bool is_named_archive(const char *out)
{
	const struct suffix *s = suffix_find(out, strlen(out));

	return s && (s->kind == SUFFIX_TAR || s->kind == SUFFIX_ZIP);
}

/* Refuses an output inside the packed directory, because it would contain a part of itself. */
static int check_place(const char *dir, const char *out, struct error *err)
{
	_cleanup_(freep) char *parent = strdup(out);
	_cleanup_(freep) char *real = NULL;
	char *slash = parent ? strrchr(parent, '/') : NULL;
	struct stat st;

	if (!parent)
		return error_set(err, ENOMEM, "out of memory");
	if (slash)
		slash[slash == parent ? 1 : 0] = '\0';
	real = realpath(slash ? parent : ".", NULL);
	if (!real)
		return error_errno(err, errno, "%s, where %s is to be", slash ? parent : ".", out);
	if (path_is_beneath(real, dir))
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL,
				  "%s is inside of %s; write it somewhere else", out, dir);
	if (stat(out, &st) == 0 && !S_ISREG(st.st_mode))
		return error_exit(err, STAGE_EXIT_USAGE, EEXIST,
				  "%s is there and no file; write to another name", out);
	return 0;
}

static bool is_there(const struct pack *p)
{
	return p->shard_size ? pack_shards_exist(p->out) : access(p->out, F_OK) == 0;
}

static int refuse_result(const struct pack *p, struct error *err)
{
	if (p->shard_size)
		return error_set(err, EEXIST,
				 "%s-000000.tar is there already; remove the old shards "
				 "first, or take --if-missing",
				 p->out);
	return error_set(err, EEXIST,
			 "%s is there already; --force replaces it, --if-missing leaves it",
			 p->out);
}

static int pack(struct pack *p, bool if_missing, bool force, struct error *err)
{
	_cleanup_(freep) char *image = NULL;
	struct lock lock = { .fd = -1 };
	int r;

	if (if_missing && is_there(p))
		return 0;
	r = p->shard_size ? 0 : out_file_resolve(&image, p->out);
	if (r < 0)
		return error_errno(err, -r, "%s", p->out);
	if (image)
		p->out = image;
	r = check_place(p->dir, p->out, err);
	if (r < 0)
		return r;
	r = lock_take(&lock, p->out, err);
	if (r < 0)
		return r;
	p->locked = lock.fd >= 0;
	if (if_missing && is_there(p))
		r = 0;
	else if (is_there(p) && (p->shard_size || !force))
		r = refuse_result(p, err);
	else
		r = p->shard_size ? pack_shards(p, err) : pack_squashfs(p, err);
	lock_release(&lock);
	return r;
}

static int cmd_pack_run(int argc, char **argv)
{
	_cleanup_(freep) char *dir = NULL;
	_cleanup_(progress_freep) struct progress *progress = NULL;
	bool if_missing = false, force = false, quiet = false;
	struct error err = ERROR_INIT;
	struct pack p = { 0 };
	struct stat st;
	int c, r;

	while ((c = cmd_next_option(argc, argv, "q", options)) != -1) {
		switch (c) {
		case OPT_IF_MISSING:
			if_missing = true;
			break;
		case OPT_SHARDS:
			if (cmd_get_size(argv[0], "--shards", optarg, &p.shard_size) < 0)
				return STAGE_EXIT_USAGE;
			break;
		case OPT_FORCE:
			force = true;
			break;
		case OPT_LINKS:
			if (strcmp(optarg, "follow") && strcmp(optarg, "keep"))
				return output_usage(argv[0], "--links is follow or keep, not '%s'",
						    optarg);
			p.follow = !strcmp(optarg, "follow");
			break;
		case 'q':
			quiet = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	if (argc - optind != 2)
		return output_usage(argv[0], "it takes a directory and the name of the result");
	p.out = argv[optind + 1];
	if (p.shard_size && has_end(p.out, ".tar")) /* for train.tar, the shards are
						     * train-000000.tar and so on */
		argv[optind + 1][strlen(p.out) - strlen(".tar")] = '\0';
	if (!p.out[0] || p.out[strlen(p.out) - 1] == '/')
		return output_usage(argv[0], "'%s' is no name of a file", p.out);
	if (is_named_archive(p.out))
		return output_usage(
			argv[0],
			"%s is an archive's name; a squashfs image is called OUT.sqsh, and of "
			"tar files (--shards SIZE) OUT is the part before -000000.tar",
			p.out);
	dir = realpath(argv[optind], NULL);
	if (!dir || stat(dir, &st) < 0)
		return output_fail((error_errno(&err, errno, "%s", argv[optind]), &err));
	if (!S_ISDIR(st.st_mode))
		return output_usage(argv[0], "%s is no directory", argv[optind]);
	p.dir = dir;
	if (progress_new(&progress, stderr, quiet ? PROGRESS_NONE : PROGRESS_AUTO) < 0)
		return STAGE_EXIT_FAILED;
	p.progress = progress;
	r = pack(&p, if_missing, force, &err);
	progress_clear(progress);
	return r < 0 ? output_fail(&err) : STAGE_EXIT_OK;
}

const struct cmd cmd_pack = {
	.name = "pack",
	.args = "[--if-missing] [--force] [--links follow|keep] [--shards SIZE] [-q] DIR OUT",
	.summary = "pack a directory of small files into a squashfs image or tar shards",
	.help = "Makes a squashfs image OUT from the directory DIR, with settings that suit "
		"training\n"
		"data (blocks of 128 KiB, zstd, files in the order of names). It needs "
		"mksquashfs.\n"
		"\n"
		"  --shards SIZE   make tar files OUT-000000.tar, OUT-000001.tar, ... of at most "
		"SIZE\n"
		"                  instead, sorted by name. The files of one sample (same name up "
		"to the\n"
		"                  first dot) are in the same shard, as webdataset needs them. OUT "
		"may end\n"
		"                  in .tar\n"
		"  --if-missing    do nothing if the result exists\n"
		"  --force         replace an image OUT that exists, which is an error otherwise\n"
		"  --links follow  pack what links lead to, as cp -L copies it; the default is "
		"--links keep\n"
		"  -q, --quiet     no progress\n"
		"\n"
		"The result appears when it is complete. If several processes make the same OUT, "
		"the others\n"
		"wait for the first one.\n"
		"\n"
		"Examples:\n"
		"  stagectl pack --if-missing /p/scratch/proj/imagenet "
		"/p/scratch/proj/imagenet.sqsh\n"
		"  stagectl pack --shards 3G train /p/scratch/proj/train     # train-000000.tar "
		"...\n",
	.run = cmd_pack_run,
};
