/*
 * This file reads and checks the part of the site's configuration that root needs, so that the
 * parser and the name service are not in root's process. A file that does not belong to root is
 * refused, as root would refuse it.
 */
#include "daemon/helper/helper.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/protocol/keeper-helper.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/parse.h"

static int load(struct conf **confp, const char *path, struct error *err)
{
	conf_trust_root_alone();
	return conf_load(confp, *path ? path : NULL, err);
}

static void describe(const struct conf *conf, struct helper_site *s)
{
	s->launch = (int32_t)conf->launch;
	s->nice = conf->nice;
	s->max_memory_percent = conf->max_memory_percent;
	s->max_files = conf->max_files;
	s->cleanup_timeout_ms = conf->cleanup_timeout_ms;
	s->abort_after_ms = conf->abort_after_ms;
	s->keep_free_memory = conf->keep_free_memory;
	s->enabled = conf->enabled;
	s->mounts = conf->mount_backend != CONF_MOUNT_NONE;
	s->has_namespace = conf->job_namespace[0] && strcmp(conf->job_namespace, "none") != 0;
	snprintf(s->log_file, sizeof(s->log_file), "%s", conf->log_file);
	snprintf(s->metrics, sizeof(s->metrics), "%s", conf->metrics_textfile);
	if (!conf->enabled)
		snprintf(s->text, sizeof(s->text), "staging is off on this node%s%s",
			 conf->disabled_text ? ": " : "",
			 conf->disabled_text ? conf->disabled_text : "");
}

void helper_site(char **argv)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	static struct helper_site site;
	struct error err = ERROR_INIT;

	site.r = load(&conf, argv[0], &err);
	if (site.r == 0)
		describe(conf, &site);
	else
		snprintf(site.text, sizeof(site.text), "%s", err.text);
	helper_answer(&site, sizeof(site));
}

/* Expands a path of the configuration (with %j, %N, %u, %g) for a job. argv: JOB UID GID NODE.
 * Returns 0 or -errno. */
static int expand(const char *path, char **argv, char *buf)
{
	struct conf_expand e = {
		.user = argv[1], .group = argv[2], .node = argv[3], .array_task = ""
	};
	const struct passwd *pw;
	const struct group *gr;
	_cleanup_(freep) char *out = NULL;
	char host[256] = "";
	int r = parse_uint32(argv[0], &e.job_id);

	if (!*e.node && gethostname(host, sizeof(host) - 1) == 0) {
		host[strcspn(host, ".")] = '\0';
		e.node = host;
	}
	if (r == 0 && strstr(path, "%u") && (pw = getpwuid((uid_t)strtoul(argv[1], NULL, 10))))
		e.user = pw->pw_name;
	if (r == 0 && strstr(path, "%g") && (gr = getgrgid((gid_t)strtoul(argv[2], NULL, 10))))
		e.group = gr->gr_name;
	if (r == 0)
		r = conf_expand_path(path, &e, &out, NULL);
	if (r < 0)
		return r;
	return snprintf(buf, PATH_MAX, "%s", out) >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Returns true if the path is a tmpfs of its own with a maximum size. Data is kept only in such a
 * tmpfs, because users may fill it. */
static bool is_own_tmpfs(const char *path)
{
	char above[PATH_MAX + 4];
	struct stat st, up;
	struct statfs fs;

	snprintf(above, sizeof(above), "%s/..", path);
	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fs.f_blocks > 0 &&
	       stat(path, &st) == 0 && stat(above, &up) == 0 && st.st_dev != up.st_dev;
}

static int find_path(const struct conf *conf, char **argv, struct helper_path *p)
{
	const bool any_job = strcmp(argv[1], "0") == 0;
	const struct conf_tier *tier;
	uint64_t n;
	int r;

	if (strcmp(argv[0], HELPER_NAMESPACE) == 0)
		return expand(conf->job_namespace, argv + 1, p->path);
	if (parse_uint64(argv[0], &n) < 0)
		return -EINVAL;
	tier = n < conf->n_tiers ? &conf->tiers[n] : conf_find_tier(conf, n);
	if (!tier)
		return n < CONF_TIER_MARK ? -ENOENT : -ESTALE;
	p->by_site = tier->provided_by_site;
	p->keep_s = (uint32_t)(tier->max_keep_ms / 1000);
	if (tier->kind == CONF_TIER_SHARED || !*tier->path ||
	    (any_job && (p->by_site || strchr(tier->path, '%'))))
		return -EINVAL;
	r = expand(tier->path, argv + 1, p->path);
	return r >= 0 && tier->kind == CONF_TIER_MEMORY && !is_own_tmpfs(p->path) ? -EINVAL : r;
}

void helper_path(char **argv)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	static struct helper_path path;

	path.r = load(&conf, argv[0], NULL) < 0 ? -EIO : find_path(conf, argv + 1, &path);
	helper_answer(&path, sizeof(path));
}
