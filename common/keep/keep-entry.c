#include "common/keep/keep-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/parse.h"

#define RECORD "record"
#define RECORD_TMP "record.tmp"
#define LEASE "job."
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static int read_boot(char buf[static 64])
{
	_cleanup_(fd_closep) int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, 63);

	if (n <= 0)
		return -EIO;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

/* Sets the file's modification time to now, in one system call. */
static int touch(int dirfd, const char *name)
{
	const uint64_t now = clock_ms();
	const struct timespec t = { (time_t)(now / 1000), (long)(now % 1000) * 1000000 };
	const struct timespec times[2] = { t, t };

	return utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int keep_write_record(int fd, const struct kv *record)
{
	_cleanup_(kv_freep) struct kv *full = NULL;
	_cleanup_(fd_closep) int out = -1;
	const char *key, *value;
	char boot[64];
	const void *data;
	size_t size;
	int r = kv_new(&full);

	if (r == 0)
		r = read_boot(boot);
	if (r < 0)
		return r;
	for (size_t i = 0; kv_get_field(record, i, &key, &value); i++)
		kv_set(full, key, value);
	kv_set(full, "boot", boot);
	r = kv_get_data(full, &data, &size);
	if (r != 0)
		return r < 0 ? r : -E2BIG;
	out = openat(fd, RECORD_TMP, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = fd_write_all(out, data, size);
	if (r == 0)
		r = touch(fd, RECORD_TMP);
	if (r == 0 && renameat(fd, RECORD_TMP, fd, RECORD) < 0)
		r = -errno;
	return r;
}

int keep_entry_read(struct keep_entry *e)
{
	_cleanup_(fd_closep) int fd = openat(e->fd, RECORD,
					     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_(freep) char *data = NULL;
	struct stat st;
	char boot[64];
	size_t size;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fd_read_file(fd, KV_MAX_SIZE, &data, &size) < 0 ||
	    kv_new_from_data(&e->record, data, size) != 0 || read_boot(boot) < 0 ||
	    strcmp(kv_get_or_empty(e->record, "boot"), boot) != 0)
		return -ESTALE;
	e->used_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
	return 0;
}

int keep_entry_open(const struct keep *k, const char *name, struct keep_entry *e)
{
	int r;

	*e = (struct keep_entry)KEEP_ENTRY_INIT;
	e->fd = openat(k->fd, name, KEEP_DIR_FLAGS);
	if (e->fd < 0)
		return errno == ENOENT ? -ENOENT : -ESTALE;
	r = keep_entry_read(e);
	if (r < 0)
		keep_entry_deinit(e);
	return r;
}

void keep_entry_deinit(struct keep_entry *e)
{
	fd_closep(&e->fd);
	kv_free(e->record);
	*e = (struct keep_entry)KEEP_ENTRY_INIT;
}

/* ---- leases ---- */

int keep_entry_take(const struct keep_entry *e, uint32_t job_id)
{
	_cleanup_(fd_closep) int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), LEASE "%u", job_id);
	fd = openat(e->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		return 0;
	return errno == EEXIST ? 1 : -errno;
}

void keep_entry_drop(const struct keep_entry *e, uint32_t job_id)
{
	char name[32];

	snprintf(name, sizeof(name), LEASE "%u", job_id);
	(void)unlinkat(e->fd, name, 0);
}

/* Returns whether the job is running. In the job's tmpfs, whose root directory belongs to root,
 * this directory belongs to the user. If the tmpfs was unmounted or never mounted, it does not
 * exist. */
static bool is_running(const struct keep *k, const char *job)
{
	char path[512];
	struct stat st;
	uint32_t id;

	if (parse_uint32(job, &id) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/%u/" RUNDIR_DATA, k->run_dir, id);
	if (lstat(path, &st) < 0)
		return errno != ENOENT && errno != ENOTDIR && errno != EACCES; /* other errors: not
									        * known, so assume
									        * that it is running
									        */
	return st.st_uid == geteuid();
}

static bool look_at_leases(const struct keep *k, const struct keep_entry *e, bool settle)
{
	_cleanup_(dir_closep) DIR *dir = fd_open_dir(e->fd, ".");
	struct dirent *d;
	bool used = !dir; /* not known, so assume that it is used */

	while (dir && (errno = 0, d = readdir(dir))) {
		if (strncmp(d->d_name, LEASE, strlen(LEASE)) != 0)
			continue;
		if (is_running(k, d->d_name + strlen(LEASE))) {
			used = true;
		} else if (settle) {
			(void)unlinkat(e->fd, d->d_name, 0);
			(void)touch(e->fd, RECORD);
		}
	}
	return used || errno;
}

bool keep_entry_is_used(const struct keep *k, const struct keep_entry *e)
{
	return look_at_leases(k, e, false);
}

bool keep_entry_settle(const struct keep *k, const struct keep_entry *e)
{
	return look_at_leases(k, e, true);
}
