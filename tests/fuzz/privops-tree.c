/*
 * The tree has objects that a keeper may change and objects that it may not: another job, leftovers
 * of other jobs, directories and links of users, a tier, cgroups, and files of the site. Files are
 * identified by their inodes, so a file that was moved is recognised.
 */
#include "tests/fuzz/privops-tree.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#include "stage-build.h"

#define USER PRIVOPS_TREE_USER
#define OTHER 1001
#define RUN STAGE_RUN_DIR
#define TRASH RUN "/" RUNDIR_TRASH
#define GROUPS PRIVOPS_TREE_GROUPS
#define LOG_FILE PRIVOPS_TREE_LOG
#define FIGURES PRIVOPS_TREE_FIGURES

/* clang-format off */
#define DIR_OF(path, mode, uid) { path, S_IFDIR | (mode), uid, NULL }
#define FILE_OF(path, uid) { path, S_IFREG | 0600, uid, "as before" }
#define LINK_OF(path, uid, text) { path, S_IFLNK, uid, text }

static const struct scratch_entry everywhere[] = {
	FILE_OF("/etc/shadow", 0),
	FILE_OF("/etc/stage-data/stage-data.conf", 0),
	LINK_OF("/etc.link", 0, "etc"),
	DIR_OF("/tmp", 01777, 0),
	DIR_OF("/tmp/stage-data-7", 0711, 0),
	LINK_OF("/tmp/link", USER, "../etc"),
	DIR_OF("/home/user", 0700, USER),
	FILE_OF("/home/user/file", USER),
	DIR_OF("/home/user/stage-data-7", 0700, USER),
	LINK_OF("/home/user/link", USER, "../../etc"),
	DIR_OF("/home/user/stage-keep-1000", 0700, 0),
	DIR_OF(RUN, 0711, 0),
	/* another job, and what others have left */
	DIR_OF(RUN "/8", 0711, 0),
	FILE_OF(RUN "/8/lock", 0),
	FILE_OF(RUN "/8/state", 0),
	FILE_OF(RUN "/8/sock", OTHER),
	DIR_OF(RUN "/8/m", 0711, 0),
	DIR_OF(RUN "/8/m/0", 0711, 0),
	DIR_OF(RUN "/8/t", 0711, 0),
	DIR_OF(RUN "/8/t/data", 0700, OTHER),
	FILE_OF(RUN "/8/t/data/file", OTHER),
	DIR_OF(RUN "/9", 0755, OTHER),
	DIR_OF(TRASH, 0700, 0),
	DIR_OF(TRASH "/8.1", 0711, 0),
	FILE_OF(TRASH "/8.1/lock", 0),
	DIR_OF(TRASH "/6.1", 0711, 0),
	FILE_OF(TRASH "/6.1/state", 0),
	FILE_OF(TRASH "/6.1/sock", USER),
	DIR_OF(TRASH "/6.1/m", 0711, 0),
	FILE_OF(TRASH "/8.1/other", 0),
	DIR_OF(TRASH "/8.1/m", 0711, 0),
	DIR_OF(TRASH "/8.1/t", 0711, 0),
	DIR_OF(TRASH "/8.1/t/data", 0700, OTHER),
	DIR_OF(TRASH "/8.2", 0711, 0),
	DIR_OF(TRASH "/9.3", 0755, OTHER),
	FILE_OF(TRASH "/9.3/lock", OTHER),
	FILE_OF(RUN "/other", 0),
	/* a disk tier */
	DIR_OF("/tier", 0755, 0),
	FILE_OF("/tier/file", 0),
	DIR_OF("/tier/others", 0755, 0),
	DIR_OF("/tier/stage-data-8", 0711, 0),
	DIR_OF("/tier/stage-data-8/data", 0700, OTHER),
	DIR_OF("/tier/stage-data-8.1", 0711, 0),
	DIR_OF("/tier/stage-data-8.1/data", 0700, OTHER),
	DIR_OF("/tier/stage-data-9.1/data", 0700, OTHER),
	FILE_OF("/tier/stage-data-9.1/data/file", OTHER),
	DIR_OF("/tier/stage-keep-1001", 0700, OTHER),
	DIR_OF("/tier/stage-keep-8", 0700, 8),
	/* what the site wants, groups, a namespace, a device */
	FILE_OF(LOG_FILE, PRIVOPS_TREE_SYSTEM),
	FILE_OF(FIGURES, 0),
	FILE_OF("/var/site/other.log", 0),
	FILE_OF("/dev/fuse", 0),
	FILE_OF("/ns/7/.ns", 0),
	FILE_OF(GROUPS "/tasks", 0),
	FILE_OF(GROUPS "/release_agent", 0),
	DIR_OF(GROUPS "/job_7", 0755, 0),
	FILE_OF(GROUPS "/job_8/tasks", 0),
	{ GROUPS "/job_8/stage-data/cgroup.procs", S_IFREG | 0600, 0, "4712\n0\n" },
};

static const struct scratch_entry of_job[] = {
	DIR_OF(RUN "/7", 0711, 0),
	FILE_OF(RUN "/7/lock", 0),
	FILE_OF(RUN "/7/state", 0),
	FILE_OF(RUN "/7/state.tmp", 0),
	FILE_OF(RUN "/7/other", 0),
	DIR_OF(RUN "/7/m", 0711, 0),
	DIR_OF(RUN "/7/m/1", 0711, 0),
	DIR_OF(RUN "/7/t", 0711, 0),
	DIR_OF(RUN "/7/t/data", 0700, USER),
	FILE_OF(RUN "/7/t/data/file", USER),
	LINK_OF(RUN "/7/failed", 0, "../../../etc/shadow"),
	DIR_OF("/tier/stage-data-7", 0711, 0),
	DIR_OF("/tier/stage-data-7/data", 0700, USER),
	LINK_OF("/tier/stage-data-7/data/link", USER, "../../../etc"),
	DIR_OF("/tier/stage-keep-1000", 0700, 0),
};

static const struct scratch_entry of_user[] = {
	DIR_OF(RUN "/7", 0755, USER),
	LINK_OF(RUN "/7/m", USER, "../../../etc"),
	DIR_OF(RUN "/7/t", 0755, USER),
	LINK_OF("/tier/stage-data-7", 0, "../etc"),
	LINK_OF("/tier/stage-keep-1000", 0, "../etc"),
};

static const struct scratch_entry of_others[] = {
	DIR_OF(RUN "/7", 0777, 0),
	FILE_OF(RUN "/7/lock", 0),
	DIR_OF("/tier/stage-data-7", 0755, USER),
	FILE_OF("/tier/stage-data-7/file", USER),
	DIR_OF("/tier/stage-keep-1000", 0700, USER),
	FILE_OF("/tier/stage-keep-1000/file", USER),
};

static const struct { const struct scratch_entry *entries; size_t n; } variants[] = {
	{ NULL, 0 },
	{ of_job, ARRAY_SIZE(of_job) },
	{ of_user, ARRAY_SIZE(of_user) },
	{ of_others, ARRAY_SIZE(of_others) },
};

/* clang-format on */

void privops_tree_fill(int top, unsigned variant)
{
	scratch_tree_empty(top);
	scratch_tree_fill(top, everywhere, ARRAY_SIZE(everywhere));
	scratch_tree_fill(top, variants[variant].entries, variants[variant].n);
}

/* ---- what may change ---- */

static const struct keeper *k; /* whose privileged operations are checked */

enum place {
	PLACE_NONE,
	PLACE_RUN,
	PLACE_TRASH,
	PLACE_JOB,     /* a job's directory in either */
	PLACE_MOUNTS,  /* its m */
	PLACE_MEMORY,  /* its t */
	PLACE_PRIVATE, /* and t/.stage */
	PLACE_TIER,    /* where something of ours stands */
	PLACE_TIER_JOB,
	PLACE_GROUPS,
	PLACE_GROUP, /* a job's */
	PLACE_SITE,
};

/* Whose the number in a name is, or in that of the directory. A clean-up has all jobs. */
enum whose {
	NOBODYS,
	OWN,   /* the job's, or its user's */
	LEFT,  /* the same, or of what was moved aside of its user's */
	ASIDE, /* the same, or of what was moved aside of anybody's */
	ANYBODYS,
};

struct rule {
	enum place place;
	const char *name; /* #: a number */
	enum whose made, removed;
	bool users; /* it may become the job's user's */
};

/* clang-format off */
static const struct rule rules[] = {
	{ PLACE_RUN, "#", OWN, OWN, false },
	{ PLACE_RUN, RUNDIR_CRASHES, OWN, OWN, false },
	{ PLACE_RUN, RUNDIR_BREAKER, OWN, OWN, false },
	{ PLACE_RUN, RUNDIR_METRICS, ANYBODYS, NOBODYS, false },
	{ PLACE_TRASH, "#", OWN, OWN, false },
	{ PLACE_TRASH, "#.#", OWN, ANYBODYS, false },
	{ PLACE_JOB, RUNDIR_LOCK, LEFT, LEFT, false },
	{ PLACE_JOB, RUNDIR_FAILED, LEFT, LEFT, false },
	{ PLACE_JOB, RUNDIR_STATE_TMP, LEFT, LEFT, false },
	{ PLACE_JOB, RUNDIR_STATE, OWN, LEFT, false },
	{ PLACE_JOB, RUNDIR_SOCK, OWN, LEFT, true },
	{ PLACE_JOB, RUNDIR_MOUNTS, OWN, LEFT, false },
	{ PLACE_JOB, RUNDIR_MEMORY, OWN, LEFT, false },
	{ PLACE_MOUNTS, "#", OWN, LEFT, false },
	{ PLACE_MEMORY, "data", OWN, NOBODYS, true },
	{ PLACE_MEMORY, ".stage", OWN, NOBODYS, true },
	{ PLACE_PRIVATE, "tmp", OWN, NOBODYS, true },
	{ PLACE_TIER, "stage-data-#", OWN, OWN, false },
	{ PLACE_TIER, "stage-data-#.#", OWN, ANYBODYS, false },
	{ PLACE_TIER, "stage-keep-#", OWN, OWN, true },
	{ PLACE_TIER_JOB, "data", OWN, ASIDE, true },
	{ PLACE_GROUPS, "job_#", NOBODYS, OWN, false },
	{ PLACE_GROUP, "stage-data", OWN, OWN, false },
	{ PLACE_SITE, "stage.prom.tmp", ANYBODYS, ANYBODYS, false },
	{ PLACE_SITE, "stage.prom", ANYBODYS, ANYBODYS, false },
};
/* clang-format on */

/* # stands for a number; *nump: the first one. */
static bool is_like(const char *name, const char *pattern, unsigned long *nump)
{
	bool has_number = false;
	size_t n;

	for (; *pattern; pattern++) {
		n = *pattern == '#' ? strspn(name, "0123456789") : *name == *pattern;
		if (n == 0)
			return false;
		if (*pattern == '#' && !has_number) {
			*nump = strtoul(name, NULL, 10);
			has_number = true;
		}
		name += n;
	}
	return *name == '\0';
}

static bool begins(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

const char *privops_tree_find_in_job(const char *path, unsigned long *jobp, bool *asidep)
{
	const char *rest;
	char name[64];

	*asidep = begins(path, TRASH "/");
	if (!*asidep && !begins(path, RUN "/"))
		return NULL;
	rest = path + (*asidep ? strlen(TRASH "/") : strlen(RUN "/"));
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(rest, "/"), rest);
	if (!is_like(name, "#", jobp) && !(*asidep && is_like(name, "#.#", jobp)))
		return NULL;
	return rest + strlen(name);
}

/* The kinds of places in run directories and groups; others are by their names. */
static enum place find_place(const char *dir, unsigned long *jobp, bool *asidep)
{
	static const struct {
		const char *below;
		enum place place;
	} places[] = {
		{ "", PLACE_JOB },
		{ "/m", PLACE_MOUNTS },
		{ "/t", PLACE_MEMORY },
		{ "/t/.stage", PLACE_PRIVATE },
	};
	const char *below = privops_tree_find_in_job(dir, jobp, asidep), *base = strrchr(dir, '/');

	if (strcmp(dir, RUN) == 0 || strcmp(dir, TRASH) == 0)
		return strcmp(dir, RUN) == 0 ? PLACE_RUN : PLACE_TRASH;
	for (size_t i = 0; below && i < ARRAY_SIZE(places); i++)
		if (strcmp(below, places[i].below) == 0)
			return places[i].place;
	*asidep = false;
	if (strcmp(dir, "/var/site") == 0)
		return PLACE_SITE;
	if (begins(dir, GROUPS))
		return is_like(base + 1, "job_#", jobp) ? PLACE_GROUP : PLACE_GROUPS;
	return PLACE_NONE;
}

static bool is_whose(enum whose whose, unsigned long number, bool aside, bool is_uid)
{
	if (whose == NOBODYS || whose == ANYBODYS)
		return whose == ANYBODYS;
	if (aside && whose != OWN)
		return k->job == 0 || whose == ASIDE || number == PRIVOPS_TREE_LEFT;
	return k->job == 0 || number == (is_uid ? k->uid : k->job);
}

/* A job's directory in a tier has the user's. */
static bool fits(const struct rule *r, const char *dir, const char *name, unsigned long *numberp,
		 bool *asidep)
{
	const char *base = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : "";
	unsigned long ignored;
	enum place place = find_place(dir, numberp, asidep);

	if (r->place == PLACE_TIER)
		return strcmp(dir, "/tier") == 0 && is_like(name, r->name, numberp);
	if (r->place == PLACE_TIER_JOB) {
		*asidep = is_like(base, "stage-data-#.#", numberp);
		return begins(dir, "/tier/") &&
		       (*asidep || is_like(base, "stage-data-#", numberp)) &&
		       strcmp(name, r->name) == 0;
	}
	if (r->place != place)
		return false;
	if (place == PLACE_RUN || place == PLACE_TRASH || place == PLACE_GROUPS)
		return is_like(name, r->name, numberp);
	return is_like(name, r->name, &ignored);
}

static const struct scratch_file *find_path(const struct scratch_list *l, const char *path,
					    size_t n)
{
	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->files[i].path, path, n) == 0 && l->files[i].path[n] == '\0')
			return &l->files[i];
	return NULL;
}

static const struct scratch_file *find_ino(const struct scratch_list *l, ino_t ino)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->files[i].ino == ino)
			return &l->files[i];
	return NULL;
}

/* The rule by which f, of that list, was made (or removed); NULL: there is none. */
static const struct rule *find_rule(const struct scratch_list *l, const struct scratch_file *f,
				    bool made)
{
	const size_t n_dir = (size_t)(strrchr(f->path, '/') - f->path);
	const struct scratch_file *above = find_path(l, f->path, n_dir);
	const bool is_safe = n_dir == 0 || above->is_safe;
	unsigned long number = 0;
	char dir[sizeof(f->path)];
	bool aside = false;

	snprintf(dir, sizeof(dir), "%.*s", (int)n_dir, f->path);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *r = &rules[i];
		const bool is_uid = begins(r->name, "stage-keep");

		if ((is_safe || r->place == PLACE_PRIVATE) &&
		    fits(r, dir, f->path + n_dir + 1, &number, &aside) &&
		    is_whose(made ? r->made : r->removed, number, aside, is_uid))
			return r;
	}
	return NULL;
}

static bool may_be_made(const struct scratch_list *after, const struct scratch_file *f)
{
	const struct rule *r = find_rule(after, f, true);

	if (!r || (f->mode & 07022 && !S_ISLNK(f->mode)) || S_ISLNK(f->mode))
		return false;
	return (f->uid == 0 && f->gid == 0) || (r->users && f->uid == k->uid && f->gid == k->gid);
}

static bool is_same(const struct scratch_file *a, const struct scratch_file *b)
{
	return a->ino == b->ino && a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->size == b->size && a->nlink == b->nlink && a->changed == b->changed;
}

/* Records are written again, and processes are put into groups that are no job's. */
static bool may_be_written(const struct scratch_list *before, const struct scratch_file *was,
			   const struct scratch_file *is)
{
	const char *base = strrchr(is->path, '/') + 1;
	struct scratch_file as = *is;
	const struct rule *r = find_rule(before, was, true);

	as.size = was->size;
	as.changed = was->changed;
	if (!is_same(was, &as) || !S_ISREG(is->mode))
		return false;
	if (begins(is->path, GROUPS))
		return (strcmp(base, "tasks") == 0 || strcmp(base, "cgroup.procs") == 0) &&
		       !strstr(is->path, "/job_");
	if (strcmp(is->path, LOG_FILE) == 0)
		return is->size >= was->size; /* lines come after it */
	if (!r || (r->place != PLACE_JOB && r->place != PLACE_RUN))
		return false;
	return strcmp(base, RUNDIR_STATE_TMP) == 0 || strcmp(base, RUNDIR_FAILED) == 0 ||
	       strcmp(base, RUNDIR_LOCK) == 0 || strcmp(base, RUNDIR_METRICS) == 0 ||
	       strcmp(base, RUNDIR_CRASHES) == 0;
}

/* A move is allowed where the old name may go and the new one may come, of the same kind; what is
 * in a directory goes with it. */
static bool may_be_moved(const struct scratch_list *before, const struct scratch_list *after,
			 const struct scratch_file *was, const struct scratch_file *is)
{
	const size_t from = (size_t)(strrchr(was->path, '/') - was->path),
		     to = (size_t)(strrchr(is->path, '/') - is->path);
	const struct scratch_file *old_above = find_path(before, was->path, from),
				  *above = find_path(after, is->path, to);
	const struct rule *r, *new_rule;

	if (old_above && above && old_above->ino == above->ino &&
	    strcmp(was->path + from, is->path + to) == 0)
		return strncmp(old_above->path, above->path, sizeof(above->path)) != 0;
	if (strcmp(is->path, FIGURES) == 0)
		return strcmp(was->path, FIGURES ".tmp") == 0;
	r = find_rule(before, was, false);
	new_rule = find_rule(after, is, true);
	if (!r || !new_rule)
		return false;
	if (r->place == PLACE_JOB)
		return strcmp(r->name, RUNDIR_STATE_TMP) == 0 &&
		       strcmp(new_rule->name, RUNDIR_STATE) == 0;
	return strstr(new_rule->name, "#.#") && begins(new_rule->name, r->name);
}

static void check_one(bool ok, const char *what, const struct scratch_file *f)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s (mode %o, uid %u), job %u\n", what, f->path, f->mode, f->uid,
		k->job);
	FUZZ_CHECK(ok);
}

void privops_tree_check(const struct keeper *keeper, const struct scratch_list *before,
			const struct scratch_list *after)
{
	k = keeper;
	for (size_t i = 0; i < before->n; i++) {
		const struct scratch_file *was = &before->files[i], *is = find_ino(after, was->ino);

		if (!is) {
			check_one(find_rule(before, was, false), "removed", was);
			continue;
		}
		if (strcmp(was->path, is->path) != 0)
			check_one(may_be_moved(before, after, was, is), "moved", was);
		if (!is_same(was, is))
			check_one(may_be_written(before, was, is), "changed", was);
	}
	for (size_t i = 0; i < after->n; i++)
		if (!find_ino(before, after->files[i].ino))
			check_one(may_be_made(after, &after->files[i]), "made", &after->files[i]);
}

bool privops_tree_is_same(const struct scratch_list *a, const struct scratch_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!is_same(&a->files[i], &b->files[i]) ||
		    strcmp(a->files[i].path, b->files[i].path) != 0)
			return false;
	return true;
}
