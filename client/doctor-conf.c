/*
 * The configuration, and the files and directories it names. On a node, a process without
 * privileges reads the configuration, and sbatch reads it as its user. root, who calls the doctor,
 * may be able to read files that they cannot.
 */
#include "client/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/cmd.h"
#include "client/conf-advice.h"
#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/root-path.h"
#include "stage-build.h"

static bool is_memory(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static bool is_read_only(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

static void tell_failure(void *arg, const char *hint, const char *text)
{
	doctor_tell(arg, DOCTOR_FAIL, hint, "%s", text);
}

static void tell_warning(void *arg, const char *hint, const char *text)
{
	doctor_tell(arg, DOCTOR_WARN, hint, "%s", text);
}

static void check_version(struct doctor *d)
{
	doctor_tell(d, DOCTOR_OK, NULL, "stage-data %s", STAGE_VERSION);
}

static void check_conf(struct doctor *d)
{
	struct error err = ERROR_INIT;

	if (conf_load(&d->conf, cmd_get_conf(), &err) < 0) {
		doctor_tell(d, DOCTOR_FAIL, "'stagectl check-config' shows every error", "%s",
			    err.text);
		return;
	}
	if (!d->conf->from_file)
		doctor_tell(d, DOCTOR_WARN,
			    "copy the example and allow a source: [source NAME] Match=/path/**",
			    "%s is not there: no job may stage anything", d->conf->path);
	else if (!conf_advise_modes(d->conf, tell_failure, d))
		;
	else if (!d->conf->enabled)
		conf_advise_off(d->conf, tell_warning, d);
	else if (d->conf->n_sources == 0)
		doctor_tell(d, DOCTOR_WARN, "add [source NAME] Match=/path/**",
			    "no source is allowed");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%zu source rule%s, %zu tier%s, digest %s",
			    d->conf->n_sources, d->conf->n_sources == 1 ? "" : "s",
			    d->conf->n_tiers, d->conf->n_tiers == 1 ? "" : "s", d->conf->hash);
}

static void check_rules(struct doctor *d)
{
	if (!d->conf)
		return;
	conf_advise_rules(d->conf, tell_warning, d);
	conf_advise_names(d->conf, tell_warning, d);
	conf_advise_files(d->conf, tell_warning, d);
}

static void check_tier(struct doctor *d, const struct conf_tier *t)
{
	bool is_ours = t->kind == CONF_TIER_DISK && !t->provided_by_site;
	struct stat st;

	if (stat(t->path, &st) < 0)
		doctor_tell(d, DOCTOR_WARN, "mount it, or take the tier out", "tier %s: %s: %s",
			    t->name, t->path, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		doctor_tell(d, DOCTOR_FAIL, "name a directory", "tier %s: %s is not a directory",
			    t->name, t->path);
	else if (is_ours && !doctor_is_roots(&st))
		doctor_tell(d, DOCTOR_FAIL, "chown root and chmod 0755 the directory",
			    "tier %s: %s is not root's alone", t->name, t->path);
	else if (is_read_only(t->path))
		doctor_tell(d, DOCTOR_FAIL,
			    "look for errors of the disk in dmesg, then mount it read-write",
			    "tier %s: %s is read-only", t->name, t->path);
	else if (is_ours && is_memory(t->path))
		doctor_tell(d, DOCTOR_WARN, "mount the disk there, or take the tier out",
			    "tier %s: %s is memory, of which no job is charged", t->name, t->path);
	else if (strcmp(t->name, t->kind == CONF_TIER_DISK ? "ssd" : "scratch") != 0)
		doctor_tell(d, DOCTOR_WARN,
			    "name the tier of the nodes' disks [tier ssd], and a shared one [tier "
			    "scratch]",
			    "tier %s: no DEST has this name, and auto does not look at it: only "
			    "paths below "
			    "%s lead there",
			    t->name, t->path);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "tier %s: %s", t->name, t->path);
}

/* Returns whether path is the root of a tmpfs with a size. stage-helper requires this, too, and
 * keeps nothing elsewhere. */
static bool is_own_tmpfs(const char *path, const struct stat *st, uint64_t *sizep)
{
	char above[PATH_MAX];
	struct statvfs fs;
	struct stat up;

	snprintf(above, sizeof(above), "%s/..", path);
	if (!is_memory(path) || statvfs(path, &fs) < 0 || stat(above, &up) < 0)
		return false;
	*sizep = (uint64_t)fs.f_blocks * fs.f_frsize;
	return *sizep > 0 && st->st_dev != up.st_dev;
}

/* Checks the directory for data that is kept in memory. */
static void check_memory(struct doctor *d, const struct conf_tier *t)
{
	const uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char size_text[PARSE_SIZE_TEXT];
	uint64_t size = 0;
	struct stat st;

	if (stat(t->path, &st) < 0)
		doctor_tell(d, DOCTOR_WARN, "mount a tmpfs with size= there, or take MaxKeep= out",
			    "tier %s: nothing is kept in memory: %s: %s", t->name, t->path,
			    strerror(errno));
	else if (!doctor_is_roots(&st))
		doctor_tell(d, DOCTOR_FAIL, "mount it with mode=0755",
			    "tier %s: %s is not root's alone", t->name, t->path);
	else if (!is_own_tmpfs(t->path, &st, &size))
		doctor_tell(
			d, DOCTOR_FAIL, "mount a tmpfs with size= there, or take MaxKeep= out",
			"tier %s: nothing is kept in memory: %s is no tmpfs of its own with a size",
			t->name, t->path);
	else if (size > total / 2)
		doctor_tell(d, DOCTOR_WARN,
			    "mount it smaller, and take as much from what Slurm gives to jobs",
			    "tier %s: %s may take %s, more than half of the memory", t->name,
			    t->path, size_to_string(size, size_text));
	else
		doctor_tell(d, DOCTOR_OK, NULL, "tier %s: up to %s are kept in %s", t->name,
			    size_to_string(size, size_text), t->path);
}

static void check_tiers(struct doctor *d)
{
	for (size_t i = 0; d->conf && i < d->conf->n_tiers; i++)
		if (d->conf->tiers[i].kind == CONF_TIER_MEMORY && *d->conf->tiers[i].path)
			check_memory(d, &d->conf->tiers[i]);
	for (size_t i = 0; d->conf && i < d->conf->n_tiers; i++)
		if (d->conf->tiers[i].kind != CONF_TIER_MEMORY &&
		    !strchr(d->conf->tiers[i].path, '%'))
			check_tier(d, &d->conf->tiers[i]);
}

static const char *const token_hint =
	"make it for users to read, with a file for each dataset that may be read at once";

/* Checks a token. A worker opens it as the job's user and locks it with flock(). */
static void check_token(struct doctor *d, const struct conf_source *s, int dir, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dir, name,
					     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		doctor_tell(d, DOCTOR_WARN, token_hint, "source %s: token %s/%s: %s", s->name,
			    s->token_dir, name, strerror(errno));
	else if (!S_ISREG(st.st_mode) || !(st.st_mode & 04))
		doctor_tell(d, DOCTOR_WARN, "chmod 0666 the files",
			    "source %s: token %s/%s can't be read by users", s->name, s->token_dir,
			    name);
	else if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno != EWOULDBLOCK)
		doctor_tell(d, DOCTOR_WARN,
			    "mount it with locks (Lustre: flock), or take another file system",
			    "source %s: %s does not support locks: %s; TokenDir= has no effect",
			    s->name, s->token_dir, strerror(errno));
	else
		doctor_tell(d, DOCTOR_OK, NULL, "source %s: tokens of %s can be taken", s->name,
			    s->token_dir);
}

/* Checks the directories of tokens. Without tokens, any number of readers may read a source at the
 * same time. */
static void check_tokens(struct doctor *d)
{
	for (size_t i = 0; d->conf && i < d->conf->n_sources; i++) {
		const struct conf_source *s = &d->conf->sources[i];
		_cleanup_(dir_closep) DIR *dir = *s->token_dir ? opendir(s->token_dir) : NULL;
		const struct dirent *e = NULL;
		struct stat st;

		if (!*s->token_dir)
			continue;
		if (!dir || fstat(dirfd(dir), &st) < 0) {
			doctor_tell(d, DOCTOR_WARN, token_hint, "source %s: TokenDir=%s: %s",
				    s->name, s->token_dir, strerror(errno));
			continue;
		}
		while ((e = readdir(dir)) && e->d_name[0] == '.')
			;
		if ((st.st_mode & 05) != 05)
			doctor_tell(d, DOCTOR_WARN, "chmod 0755 it",
				    "source %s: users can't read TokenDir=%s", s->name,
				    s->token_dir);
		else if (!e)
			doctor_tell(d, DOCTOR_WARN, token_hint,
				    "source %s: there is no token in TokenDir=%s", s->name,
				    s->token_dir);
		else
			check_token(d, s, dirfd(dir), e->d_name);
	}
}

/* Returns whether users other than root could replace the file. Root does not write there. */
static bool is_others(const char *path)
{
	const char *name;
	_cleanup_(fd_closep) int dir = root_path_open_above(path, &name);

	return dir == -EPERM;
}

static void check_log(struct doctor *d)
{
	static const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };
	const char *file = d->conf ? d->conf->log_file : "";
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has_syslog = fd >= 0 && connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0;
	char dir[PATH_MAX];

	if (!d->conf)
		/* the configuration cannot be read, so LogFile= is not known */
		return;
	snprintf(dir, sizeof(dir), "%.*s", (int)(path_base(file) - file), file);
	if (*file && access(dir, F_OK) < 0)
		doctor_tell(d, DOCTOR_WARN, "make the directory", "LogFile=%s: %s: %s", file, dir,
			    strerror(errno));
	else if (*file && is_others(file))
		doctor_tell(d, DOCTOR_FAIL,
			    "put it into a directory of root's, as /var/log/stage-data/",
			    "LogFile=%s: nothing is written: its directory must be root's and "
			    "writable by nobody else",
			    file);
	else if (!*file && !has_syslog)
		doctor_tell(d, DOCTOR_WARN,
			    "start a syslog daemon, or set LogFile=/var/log/stage-data.log",
			    "the log is lost: nothing listens at /dev/log, and there is no "
			    "LogFile");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s%s%s", has_syslog ? "syslog" : "",
			    has_syslog && *file ? ", " : "", file);
}

static void check_metrics(struct doctor *d)
{
	const char *file = d->conf ? d->conf->metrics_textfile : "";
	char dir[PATH_MAX];
	struct stat st;

	if (!*file)
		return;
	snprintf(dir, sizeof(dir), "%.*s", (int)(path_base(file) - file), file);
	if (stat(dir, &st) < 0)
		doctor_tell(d, DOCTOR_WARN, "make the directory, root's, mode 0755",
			    "Textfile=%s: %s; no figures are written", file, strerror(errno));
	else if (!doctor_is_roots(&st) || (st.st_mode & 022))
		doctor_tell(
			d, DOCTOR_WARN, "chown root and chmod 0755 the directory",
			"Textfile=%s: the directory is not root's alone; no figures are written",
			file);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", file);
}

static void check_fanout(struct doctor *d)
{
	char path[PATH_MAX];
	const char *program;
	int r;

	if (!d->conf || d->conf->fanout == CONF_FANOUT_OFF)
		return;
	program = d->conf->fanout_program;
	r = exec_copy_find(program, path, sizeof(path));
	if (r == 0 && access(path, X_OK) < 0)
		r = -errno;
	if (r == 0)
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
	else
		doctor_tell(d, DOCTOR_WARN,
			    "install Slurm's client programs here, or set [fanout] Program=",
			    "%s: %s; each node reads for itself", program, strerror(-r));
}

static void check_rundir(struct doctor *d)
{
	struct stat st;

	if (stat(STAGE_RUN_DIR, &st) < 0)
		doctor_tell(d, DOCTOR_OK, NULL, "%s will be made by the first job", STAGE_RUN_DIR);
	else if (!S_ISDIR(st.st_mode))
		doctor_tell(d, DOCTOR_FAIL, "remove it; the first job makes the directory",
			    "%s is no directory", STAGE_RUN_DIR);
	else if (st.st_uid != 0 || (st.st_mode & 022))
		doctor_tell(d, DOCTOR_FAIL, "chown root:root and chmod 0711 it",
			    "%s is not root's alone", STAGE_RUN_DIR);
	else if (is_read_only(STAGE_RUN_DIR))
		doctor_tell(d, DOCTOR_FAIL, "mount it read-write", "%s is read-only",
			    STAGE_RUN_DIR);
	else if (!is_memory(STAGE_RUN_DIR))
		doctor_tell(d, DOCTOR_WARN, "build with -Drundir= on a tmpfs",
			    "%s is on a disk: what a crash leaves survives the boot",
			    STAGE_RUN_DIR);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", STAGE_RUN_DIR);
}

const struct doctor_check doctor_conf_checks[] = {
	{ "version", check_version },	   { "configuration", check_conf },
	{ "configuration", check_rules },  { "configuration", check_tiers },
	{ "tokens", check_tokens },	   { "log", check_log },
	{ "metrics", check_metrics },	   { "fan-out", check_fanout },
	{ "run directory", check_rundir }, { NULL, NULL },
};
