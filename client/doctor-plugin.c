/*
 * Checks the plugin: whether plugstack.conf names it, whether it exists, whether it was built for
 * this Slurm, and whether slurmd has loaded it. Slurm loads only plugins of its own major.minor
 * version, and slurmd looks for plugins with a prolog only when it starts.
 */
#include "client/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/elf-number.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "stage-build.h"

#define PLUGIN "stage_data.so"
#define VERSION_SYMBOL "plugin_version"
#define MAX_INCLUDES 8
#define MAX_PLUGIN (64 * 1024 * 1024)
#define PROC_MS 5000 /* for reading all of /proc */
#define SCONTROL_MS 5000
#define START_SLACK                                                                                \
	2 /* seconds: process times count from a boot time that is known to the second only */

struct plugstack {
	bool found, required;
	char plugin[PATH_MAX];
	unsigned n_files;
	time_t newest; /* latest modification time of these files */
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

/* Parses lines of "required
 * optional
 * include PATH args". */
static void read_line(struct plugstack *p, char *line, const char *path, unsigned depth)
{
	char word[16], file[PATH_MAX];

	line[strcspn(line, "#\n")] = '\0';
	if (sscanf(line, " %15s %4095s", word, file) != 2)
		return;
	if (!strcmp(word, "include")) {
		read_include(p, file, path, depth);
	} else if (!strcmp(path_base(file), PLUGIN)) {
		p->found = true;
		p->required = !strcmp(word, "required");
		snprintf(p->plugin, sizeof(p->plugin), "%s", file);
	}
}

static void read_plugstack(struct plugstack *p, const char *path, unsigned depth)
{
	_cleanup_(file_closep) FILE *f = fopen(path, "re");
	char line[PATH_MAX + 64];
	struct stat st;

	if (!f || depth > MAX_INCLUDES)
		return;
	p->n_files++;
	if (fstat(fileno(f), &st) == 0 && st.st_mtime > p->newest)
		p->newest = st.st_mtime;
	while (fgets(line, sizeof(line), f))
		read_line(p, line, path, depth);
}

/* Returns the version of Slurm, such as 0x160508 for 22.05.8; 0: not known. */
static uint32_t get_slurm_version(const char *config)
{
	char text[32];
	unsigned major, minor;

	if (!doctor_get_key(config, "SLURM_VERSION", text, sizeof(text)) ||
	    sscanf(text, "%u.%u", &major, &minor) != 2 || major > 255 || minor > 255)
		return 0;
	return major << 16 | minor << 8;
}

static uint32_t get_plugin_version(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *data = NULL;
	uint32_t version;
	size_t size;

	if (fd < 0 || fd_read_file(fd, MAX_PLUGIN, &data, &size) < 0 ||
	    elf_number_find(data, size, VERSION_SYMBOL, &version) < 0)
		return 0;
	return version;
}

static bool is_other_slurms(struct doctor *d, const char *path, const char *config)
{
	uint32_t slurm = get_slurm_version(config), plugin = get_plugin_version(path);

	if (!slurm || !plugin || (plugin & 0xffff00) == slurm)
		return false;
	doctor_tell(d, DOCTOR_FAIL,
		    "install the plugin of this Slurm release, or build it against its headers",
		    "%s was built for Slurm %02u.%02u, this is %02u.%02u: it is not loaded", path,
		    plugin >> 16 & 255, plugin >> 8 & 255, slurm >> 16, slurm >> 8 & 255);
	return true;
}

static void find_plugin(const struct plugstack *p, const char *config, char *path, size_t size)
{
	char dirs[PATH_MAX] = "/usr/lib/slurm";
	const char *dir = dirs;

	if (p->plugin[0] == '/') {
		snprintf(path, size, "%s", p->plugin);
		return;
	}
	doctor_get_key(config, "PluginDir", dirs, sizeof(dirs));
	do {
		size_t n = strcspn(dir, ":");

		snprintf(path, size, "%.*s/%s", (int)n, dir, p->plugin);
		dir += n + (dir[n] == ':');
	} while (*dir && access(path, R_OK) < 0);
}

static void check_plugin_file(struct doctor *d, const struct plugstack *p, const char *config)
{
	char path[2 * PATH_MAX];

	find_plugin(p, config, path, sizeof(path));
	if (access(path, R_OK) < 0)
		doctor_tell(d, DOCTOR_FAIL, "install the plugin, built for this Slurm release",
			    "%s: %s", path, strerror(errno));
	else if (is_other_slurms(d, path, config))
		return;
	else if (p->required)
		doctor_tell(d, DOCTOR_WARN, "write 'optional " PLUGIN "'",
			    "the plugin is 'required': a missing or old file of it would stop all "
			    "jobs");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
}

/* Returns the start time of the process pid if it is a slurmd; else 0. */
static time_t get_slurmd_start(const char *pid)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[NAME_MAX + 16], line[1024];
	struct timespec now, up;
	unsigned long long ticks;
	const char *rest;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f) ||
	    !(strstr(line, " (slurmd) ") || strstr(line, " (slurmd-")))
		return 0;
	rest = strrchr(line, ')');
	if (sscanf(rest + 1,
		   " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %llu",
		   &ticks) != 1 ||
	    clock_gettime(CLOCK_REALTIME, &now) < 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
		return 0;
	return now.tv_sec - up.tv_sec + (time_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* Returns whether the process has mapped a plugin with that name, even if the file has been
 * replaced. Returns -errno if the caller is not root. A plugin stays mapped in slurmd. slurmd calls
 * the prolog and epilog only of plugins that existed when it started. */
static int has_loaded(const char *pid, const char *name)
{
	_cleanup_(file_closep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	char path[NAME_MAX + 16], *base;
	size_t size = 0, n = strlen(name);
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	f = fopen(path, "re");
	if (!f || (len = getline(&line, &size, f)) < 0)
		return f ? -EACCES : -errno;
	for (; len >= 0; len = getline(&line, &size, f)) {
		base = strrchr(line, '/');
		if (base && !strncmp(base + 1, name, n) && strchr(" \n", base[1 + n]))
			return 1;
	}
	return 0;
}

struct slurmd {
	time_t start; /* 0: no slurmd is running */
	int loaded;   /* result of has_loaded() */
};

static void find_slurmd(struct slurmd *s, const char *plugin)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	const struct dirent *e = NULL;

	while (dir && !s->start && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			s->start = get_slurmd_start(e->d_name);
	if (s->start)
		s->loaded = has_loaded(e->d_name, plugin);
}

static void tell_slurmd(int out, const char *plugin) __attribute__((noreturn));
static void tell_slurmd(int out, const char *plugin)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct slurmd s = { 0 };

	/* Without the doctor's output descriptors: a reader of the output must not wait for a child
	 * that cannot end. */
	for (int fd = 0; fd < 3; fd++)
		(void)dup2(null, fd);
	find_slurmd(&s, plugin);
	_exit(fd_write_all(out, &s, sizeof(s)) < 0);
}

/* Reads /proc in a child, which is not waited for after the deadline. If a user's process hangs in
 * a FUSE request while it exits, a reader of its files in /proc cannot be killed. */
static int ask_slurmd(struct slurmd *s, const char *plugin)
{
	_cleanup_(fd_closep) int in = -1, out = -1;
	struct pollfd p = { .events = POLLIN };
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p.fd = in = fds[0];
	out = fds[1];
	pid = fork();
	if (pid == 0)
		tell_slurmd(out, plugin);
	fd_closep(&out);
	if (pid < 0)
		return -EAGAIN;
	r = poll(&p, 1, PROC_MS);
	if (r == 1 && read(in, s, sizeof(*s)) == sizeof(*s))
		return waitpid(pid, NULL, 0) < 0 ? -errno : 0;
	(void)kill(pid, SIGKILL);
	return r == 0 ? -ETIMEDOUT : -EIO;
}

/* Returns whether Slurm has a node with this machine's name. */
static bool is_node(void)
{
	char host[HOST_NAME_MAX + 1] = "";
	const char *const argv[] = { "scontrol", "show", "node", host, NULL };
	_cleanup_(freep) char *text = NULL;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return false;
	host[strcspn(host, ".")] = '\0';
	return capture_run(argv, SCONTROL_MS, &text) == 0 && strstr(text, "NodeName=");
}

static void tell_no_slurmd(struct doctor *d)
{
	if (is_node())
		doctor_tell(d, DOCTOR_WARN, "start slurmd; then call the doctor again",
			    "no slurmd is seen on this node: whether it loads the plugin can't be "
			    "checked%s",
			    geteuid() ? " (where other users' processes are hidden, call the "
					"doctor as root)"
				      : "");
	else
		doctor_tell(d, DOCTOR_OK, NULL,
			    "no slurmd runs here, as on a login node: checked are the "
			    "configuration and what submission needs. "
			    "slurmd, its plugin, tiers and leftovers of the nodes are checked by "
			    "'stagectl doctor' there");
}

static void check_slurmd(struct doctor *d, const struct plugstack *p)
{
	struct slurmd s = { 0 };
	int r = ask_slurmd(&s, path_base(p->plugin));

	if (r < 0)
		doctor_tell(d, DOCTOR_WARN,
			    "grep . /sys/fs/fuse/connections/*/waiting shows file systems of users "
			    "that do not answer; ps and pgrep would wait, too",
			    "whether slurmd has loaded the plugin is not known: /proc %s",
			    r == -ETIMEDOUT ? "does not answer" : "can't be read");
	else if (!s.start)
		tell_no_slurmd(d);
	else if (s.loaded == 0)
		doctor_tell(d, DOCTOR_FAIL,
			    "restart slurmd (jobs continue); then '" STAGE_LIBEXEC_DIR
			    "/stage-keeper clean --job N' for jobs "
			    "that are over",
			    "slurmd has not loaded the plugin: data of jobs is not removed "
			    "at their end");
	else if (p->newest > s.start + START_SLACK)
		doctor_tell(d, DOCTOR_WARN,
			    "restart slurmd: it looks for plugins with a prolog when it starts",
			    "slurmd is older than plugstack.conf");
	else if (s.loaded > 0)
		doctor_tell(d, DOCTOR_OK, NULL, "slurmd has loaded the plugin");
	else
		doctor_tell(d, DOCTOR_OK, NULL,
			    "slurmd was started after plugstack.conf was written");
}

/* Returns whether the plugin is in a file of plugstack.conf.d, which Slurm does not read. */
static bool is_beside(const char *path)
{
	struct plugstack beside = { 0 };

	read_include(&beside, "plugstack.conf.d/*.conf", path, 0);
	return beside.found;
}

void doctor_check_plugin(struct doctor *d, const char *config)
{
	char path[PATH_MAX] = "/etc/slurm/plugstack.conf";
	struct plugstack p = { 0 };

	doctor_get_key(config, "PlugStackConfig", path, sizeof(path));
	read_plugstack(&p, path, 0);
	if (p.n_files == 0)
		doctor_tell(d, DOCTOR_FAIL,
			    "make it, with the line 'optional " PLUGIN "', on all "
			    "nodes and login nodes, and restart slurmd",
			    "%s can't be read", path);
	else if (!p.found && is_beside(path))
		doctor_tell(d, DOCTOR_FAIL,
			    "add the line 'include plugstack.conf.d/*.conf', and restart slurmd",
			    "%s does not name " PLUGIN
			    ", and does not include plugstack.conf.d, where its line is",
			    path);
	else if (!p.found)
		doctor_tell(d, DOCTOR_FAIL,
			    "add 'optional " PLUGIN "' on all nodes and login "
			    "nodes, and restart slurmd",
			    "%s does not name " PLUGIN, path);
	else {
		check_plugin_file(d, &p, config);
		check_slurmd(d, &p);
	}
}
