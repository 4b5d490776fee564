/*
 * With v2, each cgroup enables controllers for its children, in cgroup.subtree_control. A job has
 * the memory controller if all cgroups above its own enable it. Slurm makes the cgroups of jobs in
 * the scope of its step daemons, which exists since slurmd was started.
 */
#include "client/doctor-cgroup.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/doctor.h"
#include "common/util/cleanup.h"

#define CONTROLLER "memory"

/* Returns whether the file dir/name has the word. */
static bool has_word(const char *dir, const char *name, const char *word)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[600], text[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	while (f && fscanf(f, "%63s", text) == 1)
		if (!strcmp(text, word))
			return true;
	return false;
}

/* Returns true if a word is NAME=A,B,… and one of these is the controller. */
static bool is_controller_in(const char *proc, const char *file, const char *name)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[600], text[256], *list, *word;

	snprintf(path, sizeof(path), "%s/%s", proc, file);
	f = fopen(path, "re");
	while (f && fscanf(f, "%255s", text) == 1) {
		list = text;
		word = strsep(&list, "=");
		if (strcmp(word, name) != 0)
			continue;
		while ((word = strsep(&list, ",")))
			if (!strcmp(word, CONTROLLER))
				return true;
	}
	return false;
}

static bool exists(const char *dir, const char *name)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* Explains why the topmost cgroup has no memory controller. /proc/cgroups has lines of "NAME
 * HIERARCHY NUMBER ENABLED". The hierarchy is 0 for v2. */
static enum doctor_cgroup_kind explain_top(const char *proc)
{
	unsigned hierarchy, n, enabled;
	_cleanup_(file_closep) FILE *f = NULL;
	char path[600], line[256];

	snprintf(path, sizeof(path), "%s/cgroups", proc);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, CONTROLLER " %u %u %u", &hierarchy, &n, &enabled) != 3)
			continue;
		if (!enabled)
			return DOCTOR_CGROUP_DISABLED;
		return hierarchy ? DOCTOR_CGROUP_USED_BY_V1 : DOCTOR_CGROUP_OUTSIDE;
	}
	return is_controller_in(proc, "cmdline", "cgroup_disable") ? DOCTOR_CGROUP_DISABLED
								   : DOCTOR_CGROUP_OUTSIDE;
}

/* Looks for a cgroup above scope, from top on, that does not enable the controller. scope begins
 * with top. In the scope, Slurm enables it when a job begins. */
static bool find_gap(struct doctor_cgroup *c, const char *top, const char *scope)
{
	for (const char *end = scope + strlen(top); *end; end += strcspn(end, "/")) {
		snprintf(c->path, sizeof(c->path), "%.*s", (int)(end - scope), scope);
		if (!has_word(c->path, "cgroup.subtree_control", CONTROLLER))
			return true;
		end++;
	}
	c->path[0] = '\0';
	return false;
}

static void look_at_scopes(struct doctor_cgroup *c, const char *top)
{
	char pattern[600];
	glob_t found;

	c->kind = DOCTOR_CGROUP_V2;
	snprintf(pattern, sizeof(pattern), "%s/*.slice/*slurmstepd.scope", top);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc && c->kind == DOCTOR_CGROUP_V2; i++)
		if (find_gap(c, top, found.gl_pathv[i]))
			c->kind = DOCTOR_CGROUP_NOT_PASSED_ON;
	globfree(&found);
}

void doctor_cgroup_look(struct doctor_cgroup *c, const char *top, const char *proc)
{
	*c = (struct doctor_cgroup){ .kind = DOCTOR_CGROUP_NONE };
	if (access(top, F_OK) < 0)
		return;
	if (!exists(top, "cgroup.controllers"))
		c->kind = exists(top, CONTROLLER "/memory.usage_in_bytes")
				  ? DOCTOR_CGROUP_V1
				  : DOCTOR_CGROUP_V1_NO_MEMORY;
	else if (!has_word(top, "cgroup.controllers", CONTROLLER))
		c->kind = explain_top(proc);
	else
		look_at_scopes(c, top);
}

static bool is_cgroup(const char *config, const char *key)
{
	char value[512] = "";

	doctor_get_key(config, key, value, sizeof(value));
	return strstr(value, "cgroup");
}

/* With v1, only jobacct_gather/cgroup makes a cgroup of the memory controller if no limit is set.
 * With v2, a job has one cgroup for all controllers. */
const char *doctor_cgroup_get_effect(const struct doctor_cgroup *c, const char *config)
{
	bool made = is_cgroup(config, "JobAcctGatherType");

	if (c->kind == DOCTOR_CGROUP_V2)
		made = made || is_cgroup(config, "ProctrackType") ||
		       is_cgroup(config, "TaskPlugin");
	else if (c->kind != DOCTOR_CGROUP_V1)
		made = false;
	return made ? "charged to the job, without a limit" : "not charged to the job";
}
