/*
 * What Slurm's configuration means for us, asked of `scontrol show config` (five seconds at most:
 * a controller that is down must not hang the doctor) and of the plugstack file it names.
 */
#include "client/doctor.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/capture.h"
#include "common/cleanup.h"
#include "common/path.h"

#define SCONTROL_MS 5000
#define PLUGIN "stage_data.so"
#define MAX_INCLUDES 8

/* "Key            = value" -> value in buf; false: no such key, or "(null)". */
static bool get_key(const char *text, const char *key, char *buf, size_t size)
{
	const char *line = text, *eq;
	size_t n = strlen(key);

	for (; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		if (strncasecmp(line, key, n) || (line[n] != ' ' && line[n] != '='))
			continue;
		eq = strchr(line, '=');
		if (!eq)
			continue;
		eq += 1 + strspn(eq + 1, " ");
		snprintf(buf, size, "%.*s", (int)strcspn(eq, "\n"), eq);
		return strcmp(buf, "(null)") && buf[0];
	}
	return false;
}

static void check_prolog_flags(struct doctor *d, const char *config)
{
	char flags[512] = "";

	get_key(config, "PrologFlags", flags, sizeof(flags));
	if (strcasestr(flags, "RunInJob"))
		doctor_tell(d, DOCTOR_WARN,
			    "enable the reaper's timer on all nodes, or drop "
			    "RunInJob",
			    "PrologFlags=%s: Slurm calls no SPANK prolog or epilog; staging starts "
			    "with the first step",
			    flags);
	else if (strcasestr(flags, "Alloc") || strcasestr(flags, "Contain"))
		doctor_tell(d, DOCTOR_OK, NULL, "PrologFlags=%s", flags);
	else
		doctor_tell(
			d, DOCTOR_WARN, "PrologFlags=Contain in slurm.conf",
			"PrologFlags has neither Alloc nor Contain: on each node staging starts "
			"with the first step there");
}

struct plugstack {
	bool found, required;
	char plugin[PATH_MAX];
	unsigned n_files;
};

static void read_plugstack(struct plugstack *p, const char *path, unsigned depth);

static void read_include(struct plugstack *p, const char *pattern, const char *file, unsigned depth)
{
	char base[PATH_MAX], *slash;
	_cleanup_(freep) char *full = NULL;
	glob_t g;

	snprintf(base, sizeof(base), "%s", file);
	slash = strrchr(base, '/');
	if (slash)
		*slash = '\0';
	full = path_join(base, pattern);
	if (!full || glob(full, 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		read_plugstack(p, g.gl_pathv[i], depth + 1);
	globfree(&g);
}

/* Lines "required|optional|include PATH args". */
static void read_plugstack(struct plugstack *p, const char *path, unsigned depth)
{
	_cleanup_(file_closep) FILE *f = fopen(path, "re");
	char line[PATH_MAX + 64], word[16], file[PATH_MAX];

	if (!f || depth > MAX_INCLUDES)
		return;
	p->n_files++;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "#\n")] = '\0';
		if (sscanf(line, " %15s %4095s", word, file) != 2)
			continue;
		if (!strcmp(word, "include")) {
			read_include(p, file, path, depth);
		} else if (!strcmp(path_base(file), PLUGIN)) {
			p->found = true;
			p->required = !strcmp(word, "required");
			snprintf(p->plugin, sizeof(p->plugin), "%s", file);
		}
	}
}

static void check_plugin_file(struct doctor *d, const struct plugstack *p, const char *config)
{
	char dirs[PATH_MAX] = "/usr/lib/slurm", path[2 * PATH_MAX];
	const char *dir = dirs;

	if (p->plugin[0] == '/') {
		snprintf(path, sizeof(path), "%s", p->plugin);
	} else {
		get_key(config, "PluginDir", dirs, sizeof(dirs));
		do {
			size_t n = strcspn(dir, ":");

			snprintf(path, sizeof(path), "%.*s/%s", (int)n, dir, p->plugin);
			dir += n + (dir[n] == ':');
		} while (*dir && access(path, R_OK) < 0);
	}
	if (access(path, R_OK) < 0)
		doctor_tell(d, DOCTOR_FAIL, "install the plugin, built for this Slurm release",
			    "%s: %s", path, strerror(errno));
	else if (p->required)
		doctor_tell(d, DOCTOR_WARN, "write 'optional " PLUGIN "'",
			    "the plugin is 'required': a missing or old file of it would stop all "
			    "jobs");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
}

static void check_plugstack(struct doctor *d, const char *config)
{
	char path[PATH_MAX] = "/etc/slurm/plugstack.conf";
	struct plugstack p = { 0 };

	get_key(config, "PlugStackConfig", path, sizeof(path));
	read_plugstack(&p, path, 0);
	if (p.n_files == 0)
		doctor_tell(d, DOCTOR_FAIL,
			    "make it, with the line 'optional " PLUGIN "', on all "
			    "nodes and login nodes, and restart slurmd",
			    "%s can't be read", path);
	else if (!p.found)
		doctor_tell(d, DOCTOR_FAIL,
			    "add 'optional " PLUGIN "' on all nodes and login "
			    "nodes, and restart slurmd",
			    "%s does not name " PLUGIN, path);
	else
		check_plugin_file(d, &p, config);
}

static void check_slurm(struct doctor *d)
{
	static const char *const argv[] = { "scontrol", "show", "config", NULL };
	_cleanup_(freep) char *config = NULL;
	int r = capture_run(argv, SCONTROL_MS, &config);

	if (r == -ENOENT) {
		doctor_tell(d, DOCTOR_WARN, "'stagectl run' works without it",
			    "there is no Slurm here (no scontrol)");
		return;
	}
	if (r != 0) {
		doctor_tell(d, DOCTOR_WARN, "ask again where the controller can be reached",
			    "'scontrol show config' %s",
			    r == -ETIMEDOUT ? "does not answer" : "fails");
		return;
	}
	check_prolog_flags(d, config);
	check_plugstack(d, config);
}

const struct doctor_check doctor_slurm_checks[] = {
	{ "slurm", check_slurm },
	{ NULL, NULL },
};
