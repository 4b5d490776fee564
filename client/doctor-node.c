#include "client/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/cmd.h"
#include "client/doctor-cgroup.h"
#include "common/config/conf.h"
#include "common/protocol/keeper-helper.h"
#include "common/sandbox/landlock.h"
#include "common/util/cleanup.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "common/util/memory.h"
#include "common/util/parse.h"
#include "common/util/path.h"

#define MAGIC_FUSECTL 0x65735543
/* The number is the same on all architectures; older headers lack it. */
#define NR_FSOPEN 430
#define ADD_SYSTEM_USER                                                                            \
	"useradd --system --user-group --shell /usr/sbin/nologin " HELPER_SYSTEM_USER

/* Reads the first line of a small file; "" if it cannot be read. */
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
	int e = fd < 0 ? errno : 0;
	struct stat st;

	if (d->conf && d->conf->mount_backend == CONF_MOUNT_NONE)
		doctor_tell(d, DOCTOR_OK, NULL, "not used ([mount] Backend=none)");
	else if (e == EACCES || e == EPERM)
		doctor_tell(d, DOCTOR_WARN, "chmod 0666 /dev/fuse, as udev does by default",
			    "/dev/fuse is closed to this user: 'stagectl run' can't mount, "
			    "images will be extracted");
	else if (e)
		doctor_tell(d, DOCTOR_FAIL,
			    "modprobe fuse; and [mount] Backend=none where FUSE "
			    "is not wanted",
			    "/dev/fuse: %s; images can't be mounted", strerror(e));
	else if (fstat(fd, &st) == 0 && !S_ISCHR(st.st_mode))
		doctor_tell(d, DOCTOR_FAIL, "rm it, then mknod -m 0666 /dev/fuse c 10 229",
			    "/dev/fuse is no device; images can't be mounted");
	else if ((st.st_mode & 06) != 06)
		doctor_tell(d, DOCTOR_WARN, "chmod 0666 /dev/fuse, as udev does by default",
			    "/dev/fuse has mode %04o: 'stagectl run' can't mount (jobs with the "
			    "plugin can)",
			    st.st_mode & 07777);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "/dev/fuse can be opened");
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

/* lost: the features that need this program; NULL: all. */
static const struct {
	const char *name, *lost;
	bool outside; /* a user's process that runs outside the limits of the job */
} helpers[] = {
	{ "stage-keeper", NULL, false },
	{ "stage-helper", NULL, true },
	{ "stagingd", NULL, true },
	{ "stage-worker", NULL, true },
	{ "stage-fetch", "addresses can't be staged", true },
	{ "stage-broadcast", "each node reads for itself", true },
	{ "stage-mover", "movers can't run here", false },
};

static void check_helper(struct doctor *d, const char *name, const char *lost, bool outside)
{
	enum doctor_level level = lost ? DOCTOR_WARN : DOCTOR_FAIL;
	char path[PATH_MAX];
	struct stat st;

	if (cmd_get_helper(path, sizeof(path), name) < 0)
		return;
	if (stat(path, &st) < 0 || access(path, X_OK) < 0)
		doctor_tell(d, level, "install the package on this node", "%s: %s%s%s", path,
			    strerror(errno), lost ? "; " : "", lost ?: "");
	else if (geteuid() == 0 && !doctor_is_roots(&st))
		doctor_tell(d, DOCTOR_FAIL, "look who wrote to it, and install the package again",
			    "%s is run by root, and others can write to it", path);
	else if (!(st.st_mode & 01))
		doctor_tell(d, level, outside ? "chmod 0711 it" : "chmod 0755 it",
			    "%s has mode %04o: users can't run it", path, st.st_mode & 07777);
	else if (outside && st.st_uid == 0 && st.st_mode & 04)
		doctor_tell(
			d, DOCTOR_WARN, "chmod 0711 it",
			"%s has mode %04o: a user who can read it can trace it, and so leave his "
			"job's limits",
			path, st.st_mode & 07777);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
}

static void check_helpers(struct doctor *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(helpers); i++)
		check_helper(d, helpers[i].name, helpers[i].lost, helpers[i].outside);
}

struct system_user {
	uid_t uid;
	gid_t gid;
	char shell[64];
	char sharer[64]; /* another account with its uid; "": none */
	bool is_group_of_others;
};

static bool read_system_user(FILE *f, struct system_user *u)
{
	const struct passwd *pw;

	while ((pw = fgetpwent(f)))
		if (strcmp(pw->pw_name, HELPER_SYSTEM_USER) == 0) {
			u->uid = pw->pw_uid;
			u->gid = pw->pw_gid;
			snprintf(u->shell, sizeof(u->shell), "%s", pw->pw_shell);
			return true;
		}
	return false;
}

/* Looks for the user as stage-keeper does: in the file, without a name service. */
static bool find_system_user(struct system_user *u)
{
	_cleanup_(file_closep) FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	if (!f || !read_system_user(f, u))
		return false;
	rewind(f);
	while ((pw = fgetpwent(f))) {
		if (strcmp(pw->pw_name, HELPER_SYSTEM_USER) == 0)
			continue;
		if (pw->pw_uid == u->uid)
			snprintf(u->sharer, sizeof(u->sharer), "%s", pw->pw_name);
		u->is_group_of_others |= pw->pw_gid == u->gid;
	}
	return true;
}

/* Returns true if its group has another name in /etc/group, or is the group of another account, and
 * so is also a group of others. */
static bool is_in_group_of_others(const struct system_user *u)
{
	_cleanup_(file_closep) FILE *f = fopen("/etc/group", "re");
	const struct group *gr;

	while (f && (gr = fgetgrent(f)))
		if (gr->gr_gid == u->gid && strcmp(gr->gr_name, HELPER_SYSTEM_USER) != 0)
			return true;
	return u->is_group_of_others;
}

/* An empty shell means /bin/sh. */
static bool may_log_in(const struct system_user *u)
{
	const char *name = path_base(u->shell);

	return strcmp(name, "nologin") != 0 && strcmp(name, "false") != 0;
}

static void check_system_user(struct doctor *d)
{
	struct system_user u = { .uid = 0 };

	if (!find_system_user(&u))
		doctor_tell(d, DOCTOR_WARN, ADD_SYSTEM_USER,
			    "/etc/passwd has no user " HELPER_SYSTEM_USER
			    ": on this node jobs that ask for data fail");
	else if (u.uid == 0 || u.gid == 0)
		doctor_tell(d, DOCTOR_FAIL, "give it a uid and a gid that no other has",
			    "the user " HELPER_SYSTEM_USER " has root's uid or gid");
	else if (*u.sharer)
		doctor_tell(d, DOCTOR_FAIL, "give it a uid that no other has",
			    "%s has the uid of " HELPER_SYSTEM_USER
			    ", %u: its processes can end those that keep nodes in service",
			    u.sharer, u.uid);
	else if (is_in_group_of_others(&u))
		doctor_tell(d, DOCTOR_WARN, "give it a group of its own, also called that",
			    "the group of the user " HELPER_SYSTEM_USER
			    ", gid %u, is also that of others: it can read their files",
			    u.gid);
	else if (may_log_in(&u))
		doctor_tell(d, DOCTOR_WARN, "usermod --shell /usr/sbin/nologin " HELPER_SYSTEM_USER,
			    "the user " HELPER_SYSTEM_USER " has a shell: nobody needs to log in "
			    "as it");
	else
		doctor_tell(d, DOCTOR_OK, NULL, HELPER_SYSTEM_USER " is there, uid %u", u.uid);
}

static void check_kernel(struct doctor *d)
{
	bool has_namespaces = d->conf && strcmp(d->conf->job_namespace, "none") != 0;
	unsigned major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return;
	if (major < 4 || (major == 4 && minor < 18))
		doctor_tell(d, DOCTOR_FAIL, "boot 4.18 or later",
			    "Linux %s is older than this is made for", u.release);
	else if (has_namespaces && (major < 5 || (major == 5 && minor < 6)))
		doctor_tell(d, DOCTOR_WARN,
			    "boot 5.6 or later, or have images extracted ([mount] Backend=none)",
			    "Linux %s can't repeat mounts in JobNamespace=%s", u.release,
			    d->conf->job_namespace);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "Linux %s%s", u.release,
			    landlock_get_version() > 0
				    ? ""
				    : ", without Landlock: filters of system calls alone confine");
}

/* The keeper uses fusectl to end readers that wait for a hung image server. It mounts fusectl for
 * itself with fsopen() (Linux 5.2); on older kernels, fusectl must be mounted already. fsopen()
 * without a name always fails; only the error matters. */
static void check_control(struct doctor *d)
{
	static const char path[] = "/sys/fs/fuse/connections";
	struct statfs fs;

	if (syscall(NR_FSOPEN, NULL, 0) >= 0 || errno != ENOSYS ||
	    (d->conf && d->conf->mount_backend == CONF_MOUNT_NONE))
		return;
	if (statfs(path, &fs) < 0 || fs.f_type != MAGIC_FUSECTL)
		doctor_tell(
			d, DOCTOR_WARN,
			"mount -t fusectl fusectl /sys/fs/fuse/connections, as systemd does",
			"%s is not mounted: on this kernel what hangs with an image can't be ended",
			path);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s is mounted", path);
}

/* Parses the lines as fusermount3 does. */
static bool is_allowed_to_others(void)
{
	_cleanup_(file_closep) FILE *f = fopen("/etc/fuse.conf", "re");
	char line[256], word[32], more;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "#")] = '\0';
		if (sscanf(line, " %31s %c", word, &more) == 1 && !strcmp(word, "user_allow_other"))
			return true;
	}
	return false;
}

static void check_allow_other(struct doctor *d)
{
	if (is_allowed_to_others())
		doctor_tell(d, DOCTOR_WARN, "take user_allow_other out, unless users need it",
			    "/etc/fuse.conf has user_allow_other: whatever of root's looks into "
			    "what a user "
			    "has mounted waits for that user's server (stage-data does not look "
			    "there)");
	else
		doctor_tell(d, DOCTOR_OK, NULL,
			    "root cannot enter what users mount (no user_allow_other)");
}

/* Users read only that the node has no memory to spare. */
static void check_keep_free(struct doctor *d)
{
	char keep[PARSE_SIZE_TEXT], all[PARSE_SIZE_TEXT];
	uint64_t total, available;

	if (!d->conf || memory_read_node(&total, &available) < 0 ||
	    d->conf->keep_free_memory < total)
		return;
	doctor_tell(
		d, DOCTOR_WARN, "a smaller KeepFreeMemory= of [limits]",
		"KeepFreeMemory=%s, and this node has %s of memory: nothing is staged to memory",
		size_to_string(d->conf->keep_free_memory, keep), size_to_string(total, all));
}

/* The file is missing if the kernel was built without transparent huge pages. No setting helps
 * then. */
static void check_huge_pages(struct doctor *d)
{
	char line[256];

	read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line, sizeof(line));
	if (strstr(line, "[deny]"))
		doctor_tell(d, DOCTOR_WARN,
			    "echo never (or within_size) > /sys/kernel/mm/"
			    "transparent_hugepage/shmem_enabled",
			    "no huge pages in memory file systems: big files are written slower");
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s",
			    line[0] ? "huge pages in memory file systems"
				    : "this kernel has no huge pages in memory file systems");
}

static void check_memory(struct doctor *d)
{
	char size[PARSE_SIZE_TEXT], avail[PARSE_SIZE_TEXT];
	struct statvfs vfs;
	struct statfs fs;

	if (statfs("/dev/shm", &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
	    statvfs("/dev/shm", &vfs) < 0) {
		doctor_tell(d, DOCTOR_WARN, "mount a tmpfs there",
			    "/dev/shm is no tmpfs: 'stagectl run' needs one");
		return;
	}
	doctor_tell(d, DOCTOR_OK, NULL, "/dev/shm has %s, %s are free",
		    size_to_string((uint64_t)vfs.f_blocks * vfs.f_frsize, size),
		    size_to_string((uint64_t)vfs.f_bavail * vfs.f_frsize, avail));
	check_huge_pages(d);
}

/* clang-format off */
static const struct {
	const char *text, *hint;
} cgroup_kinds[] = {
	[DOCTOR_CGROUP_NONE] = { "no cgroups", "mount cgroups" },
	[DOCTOR_CGROUP_V1] = { "cgroup v1 with the memory controller", NULL },
	[DOCTOR_CGROUP_V1_NO_MEMORY] = { "no memory cgroup",
		"mount the memory controller, and ConstrainRAMSpace=yes in cgroup.conf" },
	[DOCTOR_CGROUP_V2] = { "cgroup v2 with the memory controller", NULL },
	[DOCTOR_CGROUP_DISABLED] = { "the kernel has the memory controller disabled",
		"boot with cgroup_enable=memory, and without cgroup_disable=memory" },
	[DOCTOR_CGROUP_USED_BY_V1] = { "cgroup v1 has the memory controller, and v2 does not",
		"CgroupPlugin=cgroup/v1 in cgroup.conf, or boot with v2 only "
		"(systemd.unified_cgroup_hierarchy=1)" },
	[DOCTOR_CGROUP_NOT_PASSED_ON] = { "cgroup v2: no job has the memory controller, because its "
		"name is not in cgroup.subtree_control of ",
		"Delegate=yes in the unit of slurmd; without systemd, write +memory to that file" },
	[DOCTOR_CGROUP_OUTSIDE] = { "cgroup v2: the cgroup outside of this container does not enable "
		"the memory controller", "write +memory to its cgroup.subtree_control" },
};
/* clang-format on */

static void check_cgroup(struct doctor *d)
{
	struct doctor_cgroup c;

	doctor_cgroup_look(&c, "/sys/fs/cgroup", "/proc");
	if (cgroup_kinds[c.kind].hint)
		doctor_tell(d, DOCTOR_WARN, cgroup_kinds[c.kind].hint,
			    "%s%s: staged data is not charged to the job",
			    cgroup_kinds[c.kind].text, c.path);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", cgroup_kinds[c.kind].text);
}

/* Looks for squashfuse where a worker does, and not in PATH. */
static void check_squashfuse(struct doctor *d)
{
	char path[PATH_MAX];

	if (!d->conf || d->conf->mount_backend != CONF_MOUNT_SQUASHFUSE)
		return;
	if (exec_copy_find("squashfuse_ll", path, sizeof(path)) == 0 && access(path, X_OK) == 0)
		doctor_tell(d, DOCTOR_OK, NULL, "%s", path);
	else
		doctor_tell(d, DOCTOR_FAIL, "install squashfuse, or [mount] Backend=fuse",
			    "there is no squashfuse_ll: images can't be mounted");
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
	{ "fuse", check_control },
	{ "fusermount3", check_fusermount },
	{ "squashfuse", check_squashfuse },
	{ "fusermount3", check_allow_other },
	{ "helpers", check_helpers },
	{ "user", check_system_user },
	{ "kernel", check_kernel },
	{ "memory", check_memory },
	{ "memory", check_keep_free },
	{ "cgroup", check_cgroup },
	{ "tools", check_tools },
	{ NULL, NULL },
};
