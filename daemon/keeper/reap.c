#include "daemon/keeper/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/rundir.h"
#include "daemon/keeper/breaker.h"
#include "daemon/keeper/clean.h"
#include "daemon/keeper/jobdir.h"
#include "daemon/keeper/mountinfo.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/state.h"
#include "daemon/keeper/tier.h"

#define REAP_TIMEOUT_MS 30000

static int reap_one(void *arg, int base_fd, const char *name)
{
	const struct clean_options o = { .timeout_ms = REAP_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	int *result = arg;
	int r = clean_job(base_fd, name, &o, &err);

	if (r < 0 && r != -EBUSY) {
		log_error("job %s: %s", name, err.text);
		*result = r;
	}
	return 0;
}

int reap_all(const char *conf_path, struct error *err)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(fd_closep) int base = jobdir_open_base(NULL, err);
	int r, left = 0;

	if (base < 0)
		return base;
	r = jobdir_for_each(reap_one, &left, err);
	if (conf_load(&conf, conf_path, NULL) == 0)
		tier_sweep(conf, base, clock_ms() + REAP_TIMEOUT_MS);
	breaker_reset(base);
	if (r == 0 && left < 0)
		r = error_errno(err, -left, "something is left in %s", STAGE_RUN_DIR);
	return r;
}

/* statfs on a tmpfs can't hang; that it is one is looked up in the kernel's tables first. */
static unsigned long long get_bytes(int dirfd)
{
	_cleanup_(fd_closep) int fd = -1;
	struct mountinfo m;
	struct statfs fs;

	if (mounts_lookup(dirfd, RUNDIR_MEMORY, &m) < 0 || strcmp(m.type, "tmpfs") != 0)
		return 0;
	fd = openat(dirfd, RUNDIR_MEMORY, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return 0;
	return (unsigned long long)(fs.f_blocks - fs.f_bfree) * (unsigned long long)fs.f_bsize;
}

static int list_one(void *arg, int base_fd, const char *name)
{
	struct jobdir d = JOBDIR_INIT;
	unsigned mounts = 0, workers = 0, tiers = 0;
	char slot[MOUNTS_SLOT_SIZE];
	struct mountinfo m;
	struct state st;

	if (jobdir_open(&d, base_fd, name, NULL) != 0)
		return 0;
	state_read(d.fd, &st);
	for (unsigned i = 0; i < RUNDIR_MAX_SLOTS; i++) {
		mounts_slot_name(slot, i);
		mounts += mounts_lookup(d.fd, slot, &m) == 0;
	}
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		workers += st.procs[i].pid && proc_is_alive(&st.procs[i]);
	for (size_t i = 0; i < STATE_MAX_TIERS; i++)
		tiers += st.tiers[i].path[0] != '\0';
	printf("job=%s uid=%u keeper=%s bytes=%llu mounts=%u workers=%u tiers=%u%s\n", name,
	       (unsigned)st.uid,
	       state_is_current(&st) && proc_is_alive(&st.keeper) ? "alive" : "dead",
	       get_bytes(d.fd), mounts, workers, tiers, st.failed ? " failed=1" : "");
	jobdir_deinit(&d);
	return 0;
}

int reap_list(struct error *err)
{
	return jobdir_for_each(list_one, NULL, err);
}
