#include "client/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/cmd.h"
#include "common/cleanup.h"
#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/parse.h"
#include "stage-build.h"

#define MAGIC_TMPFS 0x01021994
#define MAGIC_RAMFS 0x858458f6
#define MAGIC_CGROUP2 0x63677270

/* The first line of a small file; "" if it can't be read. */
static void read_line(const char *path, char *buf, size_t size)
{
	_cleanup_(file_closep) FILE *f = fopen(path, "re");

	if (!f || !fgets(buf, (int)size, f))
		buf[0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

static void check_fuse(struct doctor *d)
{
	_cleanup_(fd_closep) int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		doctor_tell(d, DOCTOR_OK, NULL, "/dev/fuse can be opened");
	else if (errno == EACCES || errno == EPERM)
		doctor_tell(d, DOCTOR_WARN, "chmod 0666 /dev/fuse, as udev does by default",
			    "/dev/fuse is closed to this user: 'stagectl run' can't mount, "
			    "images will be extracted");
	else
		doctor_tell(d, DOCTOR_FAIL,
			    "modprobe fuse; and [mount] Backend=none where FUSE "
			    "is not wanted",
			    "/dev/fuse: %s; images can't be mounted", strerror(errno));
}

static void check_fusermount(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;

	if (capture_find("fusermount3", path, sizeof(path)) < 0)
		doctor_tell(d, DOCTOR_WARN, "install fuse3",
			    "there is no fusermount3: 'stagectl run' can't mount (jobs with the "
			    "plugin can)");
	else if (stat(path, &st) < 0 || !(st.st_mode & S_ISUID))
		doctor_tell(d, DOCTOR_WARN, "chmod u+s it, or leave 'stagectl run' without mounts",
			    "%s is not setuid: 'stagectl run' can't mount", path);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
}

static void check_helpers(struct doctor *d)
{
	static const char *const names[] = { "stage-keeper", "stage-hand", "stagingd",
					     "stage-worker" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (cmd_get_helper(path, sizeof(path), names[i]) == 0 && access(path, X_OK) == 0)
			doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
		else
			doctor_tell(d, DOCTOR_FAIL, "install the package on this node", "%s: %s",
				    path, strerror(errno));
	}
}

static void check_tiers(struct doctor *d, const struct conf *conf)
{
	struct stat st;

	for (size_t i = 0; i < conf->n_tiers; i++) {
		const struct conf_tier *t = &conf->tiers[i];

		if (t->kind == CONF_TIER_MEMORY || strchr(t->path, '%'))
			continue;
		if (stat(t->path, &st) < 0)
			doctor_tell(d, DOCTOR_WARN, "mount it, or take the tier out",
				    "tier %s: %s: %s", t->name, t->path, strerror(errno));
		else if (t->kind == CONF_TIER_DISK && !t->provided_by_site &&
			 (st.st_uid != 0 || ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))))
			doctor_tell(d, DOCTOR_FAIL, "chown root and chmod 0755 the directory",
				    "tier %s: %s is not root's alone", t->name, t->path);
		else
			doctor_tell(d, DOCTOR_OK, NULL, "tier %s: %s", t->name, t->path);
	}
}

static void tell_idle(void *arg, const char *text)
{
	doctor_tell(arg, DOCTOR_WARN, "take it out, so that nobody relies on it", "%s", text);
}

static void check_conf(struct doctor *d)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct error err = ERROR_INIT;

	if (conf_load(&conf, cmd_get_conf(), &err) < 0) {
		doctor_tell(d, DOCTOR_FAIL, "'stagectl check-config' shows every error", "%s",
			    err.text);
		return;
	}
	if (!conf->from_file)
		doctor_tell(d, DOCTOR_WARN,
			    "copy the example and allow a source: [source NAME] "
			    "Match=/path/**",
			    "%s/stage-data.conf is not there: no job may stage anything",
			    STAGE_CONF_DIR);
	else if (!conf->enabled)
		doctor_tell(d, DOCTOR_WARN, "Enabled=yes, and no file 'disabled' beside it",
			    "staging is switched off%s%s", conf->disabled_text ? ": " : "",
			    conf->disabled_text ? conf->disabled_text : "");
	else if (conf->n_sources == 0)
		doctor_tell(d, DOCTOR_WARN, "add [source NAME] Match=/path/**",
			    "no source is allowed");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%zu source rules, %zu tiers", conf->n_sources,
			    conf->n_tiers);
	conf_for_each_idle(conf, tell_idle, d);
	check_tiers(d, conf);
}

static void check_rundir(struct doctor *d)
{
	struct statfs fs;
	struct stat st;

	if (stat(STAGE_RUN_DIR, &st) < 0)
		doctor_tell(d, DOCTOR_OK, NULL, "%s will be made by the first job", STAGE_RUN_DIR);
	else if (st.st_uid != 0 || (st.st_mode & 022))
		doctor_tell(d, DOCTOR_FAIL, "chown root:root and chmod 0755 it",
			    "%s is not root's alone", STAGE_RUN_DIR);
	else if (statfs(STAGE_RUN_DIR, &fs) == 0 && fs.f_type != MAGIC_TMPFS &&
		 fs.f_type != MAGIC_RAMFS)
		doctor_tell(d, DOCTOR_WARN, "build with -Drundir= on a tmpfs",
			    "%s is on a disk: what a crash leaves survives the boot",
			    STAGE_RUN_DIR);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", STAGE_RUN_DIR);
}

static void check_memory(struct doctor *d)
{
	char size[PARSE_SIZE_TEXT], avail[PARSE_SIZE_TEXT], line[256];
	struct statvfs vfs;
	struct statfs fs;

	if (statfs("/dev/shm", &fs) < 0 || fs.f_type != MAGIC_TMPFS ||
	    statvfs("/dev/shm", &vfs) < 0) {
		doctor_tell(d, DOCTOR_WARN, "mount a tmpfs there",
			    "/dev/shm is no tmpfs: 'stagectl run' needs one");
		return;
	}
	doctor_tell(d, DOCTOR_OK, NULL, "/dev/shm has %s, %s are free",
		    size_to_string((uint64_t)vfs.f_blocks * vfs.f_frsize, size),
		    size_to_string((uint64_t)vfs.f_bavail * vfs.f_frsize, avail));
	read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line, sizeof(line));
	if (!line[0] || strstr(line, "[deny]"))
		doctor_tell(d, DOCTOR_WARN,
			    "echo never (or within_size) > /sys/kernel/mm/"
			    "transparent_hugepage/shmem_enabled",
			    "no huge pages in memory file systems: big files are written slower");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "huge pages in memory file systems");
}

static void check_cgroup(struct doctor *d)
{
	char line[512];
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs) < 0) {
		doctor_tell(d, DOCTOR_WARN, "mount cgroups",
			    "no cgroups: staged data is not charged to the job");
		return;
	}
	if (fs.f_type == MAGIC_CGROUP2) {
		read_line("/sys/fs/cgroup/cgroup.controllers", line, sizeof(line));
		if (strstr(line, "memory"))
			doctor_tell(d, DOCTOR_OK, NULL, "cgroup v2 with the memory controller");
		else
			doctor_tell(d, DOCTOR_WARN, "boot with cgroup_enable=memory",
				    "cgroup v2 without the memory controller: staged data is not "
				    "charged to the job");
		return;
	}
	if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0 ||
	    access("/sys/fs/cgroup/memory/memory.usage_in_bytes", F_OK) == 0)
		doctor_tell(d, DOCTOR_OK, NULL, "cgroup v1 with the memory controller");
	else
		doctor_tell(d, DOCTOR_WARN,
			    "mount the memory controller, and ConstrainRAMSpace=yes "
			    "in cgroup.conf",
			    "no memory cgroup: staged data is not charged to the job");
}

static void check_tools(struct doctor *d)
{
	char path[PATH_MAX];

	if (capture_find("mksquashfs", path, sizeof(path)) == 0)
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
	else
		doctor_tell(d, DOCTOR_WARN, "install squashfs-tools",
			    "there is no mksquashfs: 'stagectl pack' can make shards only");
}

const struct doctor_check doctor_node_checks[] = {
	{ "fuse", check_fuse },
	{ "fusermount3", check_fusermount },
	{ "helpers", check_helpers },
	{ "configuration", check_conf },
	{ "run directory", check_rundir },
	{ "memory", check_memory },
	{ "cgroup", check_cgroup },
	{ "tools", check_tools },
	{ NULL, NULL },
};
