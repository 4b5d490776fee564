#include "daemon/worker/list-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/strutil.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"

/* Returns whether the file was staged; include= and exclude= may have left it out. */
static bool is_staged(const char *made, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", made, name) >= PATH_MAX ||
	       lstat(path, &st) == 0 || errno != ENOENT;
}

/* Attack: in a directory that others may write to, a name with a line end would add another path to
 * the list. Python also treats a carriage return as a line end. */
static int write_paths(FILE *f, struct ctx *ctx, const struct source *src, const char *made)
{
	const char *first = NULL;
	size_t n_left = 0;

	for (size_t i = 0; i < src->n_members; i++) {
		const char *name = src->members[i].name;

		if (!is_staged(made, name)) {
			continue;
		} else if (strpbrk(name, "\n\r")) {
			first = first ? first : name;
			n_left++;
		} else if (fprintf(f, "%s/%s/%s\n", ctx->data_path, ctx->ds->name, name) < 0) {
			return -errno;
		}
	}
	if (n_left)
		stage_io_warn(
			&ctx->io, "%zu %s in the list of paths, as %s line ends; the first is %s",
			n_left,
			count_word(n_left, "file is staged and not", "files are staged and not"),
			count_word(n_left, "its name has", "their names have"), first);
	return fflush(f) == EOF ? -errno : 0;
}

int list_file_write(struct ctx *ctx, const struct source *src, const char *made, char **pathp,
		    struct error *err)
{
	_cleanup_(freep) char *path = NULL, *tmp = NULL;
	_cleanup_(file_closep) FILE *f = NULL;
	int fd, r;

	path = strutil_printf("%s/" RUNDIR_PRIVATE "/list.%s", ctx->rundir, ctx->ds->name);
	tmp = path ? strutil_printf("%s.tmp", path) : NULL;
	if (!tmp)
		return error_set(err, ENOMEM, "out of memory");
	r = ctx_record(ctx, MANIFEST_TREE, path, err);
	if (r == 0)
		r = ctx_record(ctx, MANIFEST_TREE, tmp, err);
	if (r < 0)
		return r;
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		fd_closep(&fd);
		return error_errno(err, errno, "create %s", tmp);
	}
	r = write_paths(f, ctx, src, made);
	if (r < 0)
		return error_errno(err, -r, "write %s", tmp);
	if (rename(tmp, path) < 0)
		return error_errno(err, errno, "rename %s", tmp);
	*pathp = steal_ptr(path);
	return 0;
}
