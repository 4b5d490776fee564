/*
 * On a shared tier, the directory's name contains the node's name. So each node writes to its own
 * directory, and no node removes what another one is writing. A complete copy is moved to a
 * directory of all nodes of the job (daemon/worker/job-copy.h).
 */
#include "daemon/stagingd/tier-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/policy/source-rules.h"
#include "common/protocol/manifest.h"
#include "common/protocol/rundir.h"
#include "common/protocol/tier-name.h"
#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/strutil.h"
#include "daemon/stagingd/job-info.h"

static int join(struct tier_dir *dir, const struct job_info *info, const char *base, bool per_node,
		struct error *err)
{
	dir->path = strutil_printf("%s/" TIER_NAME_JOB "%s%s%s%s", base, path_base(info->rundir),
				   per_node ? "-" : "", per_node ? info->node : "",
				   dir->by_keeper ? "/" TIER_NAME_DATA : "");
	if (!dir->path)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int set_shared(struct tier_dir *dir, const struct job_info *info, const char *base,
		      struct error *err)
{
	dir->shared = strutil_printf("%s/" TIER_NAME_JOB "%s", base, path_base(info->rundir));
	if (!dir->shared)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

void tier_dir_deinit(struct tier_dir *dir)
{
	free(dir->path);
	free(dir->shared);
	*dir = (struct tier_dir){ 0 };
}

int tier_dir_find(const struct job_info *info, const char *tier, struct tier_dir *dir,
		  struct error *err)
{
	const struct conf_expand e = job_info_get_expand(info);
	bool absolute = tier[0] == '/';
	const struct conf_tier *t = absolute ? source_rules_find_tier(info->conf, &e, tier)
					     : conf_get_tier(info->conf, tier);
	_cleanup_(freep) char *base = NULL;
	int r;

	*dir = (struct tier_dir){ 0 };
	if (!t && !(absolute && info->permissive))
		return error_set(err, ENODEV, "there is no tier %s here; leave DEST out", tier);
	if (t && t->kind == CONF_TIER_MEMORY && (!*t->path || info->local))
		return error_set(err, EINVAL,
				 "tier %s is memory, it has no directory; leave DEST out", tier);
	if (t) {
		r = conf_expand_path(t->path, &e, &base, err);
		if (r < 0)
			return r;
		dir->by_keeper = t->kind != CONF_TIER_SHARED && !info->local &&
				 (!absolute || !strcmp(base, tier));
		dir->index = (uint32_t)(t - info->conf->tiers);
		dir->mark = conf_tier_get_mark(t);
		r = t->kind == CONF_TIER_SHARED && !info->local
			    ? set_shared(dir, info, absolute ? tier : base, err)
			    : 0;
		if (r < 0)
			return r;
	}
	return join(dir, info, absolute ? tier : base, !t || t->kind == CONF_TIER_SHARED, err);
}

/* Checks the directory that contains path. If only its group may write to it, this is allowed,
 * because the site or the user has chosen it. */
static int check_place(const char *path, struct error *err)
{
	_cleanup_(freep) char *above = strndup(path, (size_t)(path_base(path) - path));
	struct stat st;
	int r;

	if (!above)
		return error_set(err, ENOMEM, "out of memory");
	if (stat(*above ? above : ".", &st) < 0) {
		r = error_errno(err, errno, "look at %s", above);
		return r == -ENOENT
			       ? error_set_hint(err, r, "make that directory, or name another DEST")
			       : r;
	}
	return st.st_mode & 02 && tier_name_is_open(st.st_mode)
		       ? tier_dir_refuse(above, st.st_mode, err)
		       : 0;
}

int tier_dir_refuse(const char *path, unsigned mode, struct error *err)
{
	return error_set(err, EPERM,
			 "%s has mode %04o: others may exchange what is in it; chmod go-w it, or "
			 "make it sticky "
			 "(chmod +t)",
			 path, mode & 07777);
}

static int check_own(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno != ELOOP && errno != ENOTDIR && errno != EACCES)
		return error_errno(err, errno, "look at %s", path);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, EPERM,
				 "%s is there and is not a directory of stage-data; remove it",
				 path);
	return 0;
}

int tier_dir_make(void *arg, struct error *err)
{
	const struct tier_dir_order *order = arg;
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	_cleanup_(freep) char *manifest = NULL;
	int r;

	manifest = strutil_printf("%s/" RUNDIR_MANIFEST, order->rundir);
	if (!manifest)
		return error_set(err, ENOMEM, "out of memory");
	r = manifest_open(&m, manifest, err);
	if (r == 0)
		r = manifest_add(m, MANIFEST_TREE, order->path, err);
	if (r < 0)
		return r;
	r = check_place(order->path, err);
	if (r < 0)
		return r;
	if (mkdir(order->path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", order->path);
	return check_own(order->path, err);
}
