/*
 * The steps from the plugin's exec to the moment when stagingd can be started. While the plugin
 * waits (at most 500 ms), no step waits for anything that could take long. The keeper requests the
 * user's account at the beginning, because that may ask the network, and needs it only after the
 * plugin has its answer. If the job cannot be set up, the keeper reports this to the plugin, writes
 * the reason to the file `failed` for the job's tasks, and stays until the job's end. While it
 * holds the lock, nobody removes that file.
 */
#include "daemon/manager/manager.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/policy/memory-limits.h"
#include "common/protocol/rundir.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/mountinfo.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/clean.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/node-metrics.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/reap.h"

#include "stage-build.h"

#define LEFTOVER_MS 300 /* for a clean-up after an earlier run; then it is moved aside */
#define SITE_MS 15000	/* to read the site's settings; no process waits for them */
#define ANOTHER_MS (SITE_MS + 2000) /* for another keeper of the same run to read them */
#define CLEANUP_MS 10000	    /* if no configuration could be loaded */
#define LATER_MS 3600000	    /* to remove content, which may be on slow disks */
#define INODES_SPARE 4096

/* Results of functions that also return JOBDIR_E_*. */
enum {
	RUN_E_ANOTHER = JOBDIR_E_GONE + 1, /* a keeper of the same run exists: another step on the
					    * node started it */
	RUN_E_BEGINNING,		   /* the same, and it does not know its answer yet */
	RUN_E_FOREIGN, /* a keeper exists that belongs to an older job with the same id */
};

static void answer(char verdict, const char *text)
{
	char line[ERROR_MAX_SIZE + 1];

	snprintf(line, sizeof(line), "%c%s", verdict, text);
	privops_answer(line);
}

/* Looks for another keeper of this run. If there is one, its answer becomes ours. Returns 0 if
 * there is none, or RUN_E_*. */
static int find_another(struct manager *k, const struct jobdir *d)
{
	char text[ERROR_MAX_SIZE];
	static struct state st;
	struct mountinfo m;

	if (jobdir_read_state(d, &st) < 0 || st.restart != k->st.restart || st.ending ||
	    !state_is_current(&st) || !state_proc_is_alive(&st.keeper))
		return 0;
	if (st.uid != k->st.uid || st.gid != k->st.gid) {
		log_warning("an old job of uid %u, gid %u with this number still has a keeper: "
			    "ending it",
			    st.uid, st.gid);
		return RUN_E_FOREIGN;
	}
	if (st.failed && jobdir_read_text(d, PRIVOP_FILE_FAILED, text, sizeof(text)) > 0)
		answer('E', text);
	else if (mountinfo_find_at(&m, d->fd, RUNDIR_MEMORY) == 0)
		answer('R', "");
	else
		return RUN_E_BEGINNING;
	return RUN_E_ANOTHER;
}

/* The job's directory exists already: another keeper uses it, or it is a leftover. Returns 0 if the
 * directory has been removed or moved aside, RUN_E_ANOTHER, or -errno. */
static int settle_leftover(struct manager *k, struct jobdir *d, struct error *err)
{
	const struct clean_options o = { .end_keeper = true,
					 .timeout_ms = LEFTOVER_MS,
					 .only_uid = k->st.uid };
	const uint64_t begin_ms = clock_ms();
	struct jobdir_id id = d->id;
	int r, another;

	do {
		another = find_another(k, d);
		if (another == RUN_E_ANOTHER)
			return another;
		if (another == RUN_E_FOREIGN)
			break;
		r = jobdir_lock(d, clock_ms() + 10, NULL);
	} while (r == -EBUSY && clock_ms() < begin_ms + (another ? ANOTHER_MS : LEFTOVER_MS));
	jobdir_unlock(d);
	r = clean_job(&id, &o, err);
	if (r == 0)
		return 0;
	log_warning("%s: moved aside", err->text);
	return jobdir_trash(d, err);
}

/* Makes the job's directory and locks it. Returns 0, RUN_E_ANOTHER, or -errno. */
static int take_dir(struct manager *k, struct error *err)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(false, err);
	const struct jobdir_id id = { .job_id = k->st.job_id };
	int r = base;

	for (int tries = 0; r >= 0 && tries < 10; tries++) {
		_cleanup_(jobdir_deinit) struct jobdir left = JOBDIR_INIT;

		r = jobdir_create(&k->dir, id.job_id, err);
		if (r == 0)
			r = jobdir_lock(&k->dir, 0, err);
		if (r == 0)
			return 0;
		jobdir_deinit(&k->dir);
		if (r < 0 && r != -EEXIST && r != -EBUSY)
			return r;
		r = jobdir_open(&left, &id, err);
		if (r == 0)
			r = settle_leftover(k, &left, err);
		if (r == RUN_E_ANOTHER)
			return r;
	}
	return r < 0 ? r : error_set(err, EBUSY, "the job's run directory is in use");
}

static int check_site(struct manager *k, struct error *err)
{
	const struct helper_site *s = &k->site;

	if (s->r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "the site's configuration could not be read within %d s",
				 SITE_MS / 1000);
	if (s->r < 0)
		return s->text[0] ? error_set(err, -s->r, "%s", s->text)
				  : error_errno(err, -s->r,
						"stage-helper can't be run, is libexec complete?");
	if (s->launch == CONF_LAUNCH_PROLOG && k->in_step)
		return error_set(err, EPERM,
				 "Launch=prolog, and no prolog has started staging on "
				 "this node: check PrologFlags in slurm.conf");
	return s->enabled ? 0 : error_set(err, EPERM, "%s", s->text);
}

/* Opens the site's log. The plugin has its answer by then, so it does not wait while root's child
 * opens a file in a directory that does not answer. */
static void open_log(struct manager *k)
{
	const struct helper_site *s = &k->site;

	if (s->r < 0)
		return;
	k->log_r = helper_open_log(s);
	if (s->log_file[0] && k->log_r < 0)
		log_warning("LogFile=%s: %s%s", s->log_file, strerror(-k->log_r),
			    k->log_r == -EPERM
				    ? "; its directory must be root's and writable by nobody else"
				    : "");
}

static int mount_memory(struct manager *k, struct error *err)
{
	struct sysinfo si;
	uint64_t all, inodes;

	if (sysinfo(&si) < 0)
		return error_errno(err, errno, "find the machine's memory");
	all = (uint64_t)si.totalram * si.mem_unit;
	k->memory_size = memory_limits_get_share(all, k->site.max_memory_percent);
	/* Without MaxFiles=, the kernel's default is used: an inode for every other page. */
	inodes = k->site.max_files ? k->site.max_files + INODES_SPARE : all / 4096 / 2;
	return mounts_memory(&k->dir, k->memory_size, inodes, err);
}

static int check_program(const struct manager *k, enum privop_program program, const char *name,
			 struct error *err)
{
	const int r = k->site.programs[program];

	if (r == -EPERM)
		return error_set(err, EPERM,
				 STAGE_LIBEXEC_DIR
				 "/%s: must be a file of root's, writable by nobody else",
				 name);
	return r < 0 ? error_errno(err, -r, "open " STAGE_LIBEXEC_DIR "/%s", name) : 0;
}

static int set_up(struct manager *k, struct error *err)
{
	int r = 0;

	if (k->st.uid == 0)
		r = error_set(err, EPERM, "nothing is staged for root: submit as a user");
	if (r == 0)
		r = check_site(k, err);
	if (r == 0)
		r = check_program(k, PRIVOP_PROGRAM_DAEMON, "stagingd", err);
	if (r == 0)
		r = check_program(k, PRIVOP_PROGRAM_WORKER, "stage-worker", err);
	if (r == 0)
		r = mount_memory(k, err);
	if (r < 0)
		return r;
	r = privops_do_name(PRIVOP_MAKE_DIR, k->dir.dir, PRIVOP_NAME_MOUNTS, 0, 0, 0);
	if (r < 0)
		return error_errno(err, -r, "make %s", RUNDIR_MOUNTS);
	k->listen_fd = privops_open(PRIVOP_BIND, k->dir.dir, 0);
	return k->listen_fd < 0 ? error_errno(err, -k->listen_fd, "make the job's socket") : 0;
}

/* Writes why nothing is staged into the run directory, and tells the plugin. */
static void tell_failure(struct manager *k, const struct error *err)
{
	char text[ERROR_MAX_SIZE + 1];
	const int n = snprintf(text, sizeof(text), "%s\n", err->text);

	(void)privops_write(k->dir.dir, PRIVOP_FILE_FAILED, text, (size_t)n);
	k->st.failed = true;
	jobdir_write_state(&k->dir, &k->st);
	answer('E', err->text);
}

static void wait_for_end(void)
{
	struct pollfd p = { privops_get_fd(), POLLIN, 0 };

	while (!privops_is_over())
		if (poll(&p, 1, -1) > 0)
			privops_hear();
}

static int serve(struct manager *k, bool *job_overp, struct error *err)
{
	bool known = false;
	int r;

	r = helper_wait_user(&known);
	if (r == -ECANCELED)
		return 0;
	if (r < 0)
		return error_errno(err, -r, "find the account of uid %u", k->st.uid);
	if (!known)
		log_warning("uid %u has no account here: it is staged with gid %u alone", k->st.uid,
			    k->st.gid);
	r = manager_serve(k, job_overp);
	return r < 0 ? error_errno(err, -r, "start stagingd") : 0;
}

static int end_run(struct manager *k, bool job_over, struct error *err)
{
	k->st.ending = true;
	jobdir_write_state(&k->dir, &k->st);
	return clean_release(&k->dir, &k->st, job_over,
			     clock_ms() +
				     (k->site.r == 0 ? k->site.cleanup_timeout_ms : CLEANUP_MS),
			     LATER_MS, err);
}

static int live(struct manager *k, struct error *err)
{
	bool job_over = true;
	int r = jobdir_write_state(&k->dir, &k->st);

	/* Without a record, no clean-up could find us and end us. So everything is removed, and we
	 * end. */
	if (r < 0) {
		(void)clean_release(&k->dir, &k->st, false, clock_ms() + CLEANUP_MS, 0, NULL);
		return error_errno(err, -r, "write the job's record");
	}
	/* From here on, a clean-up finds us by the record, however long it takes to read the
	 * configuration. */
	k->site.r = helper_get_site(&k->site, SITE_MS);
	if (k->site.r == -ECANCELED)
		return end_run(k, job_over, err);
	if (k->site.r == 0 && k->site.launch == CONF_LAUNCH_STEP && !k->in_step) {
		r = clean_release(&k->dir, &k->st, false, clock_ms() + CLEANUP_MS, 0, err);
		answer('S', "");
		return r;
	}
	r = set_up(k, err);
	if (r == 0)
		answer('R', "");
	else
		tell_failure(k, err);
	if (!k->in_step)
		job_cgroup_leave_service(k->node);
	open_log(k);
	if (r == 0) {
		r = serve(k, &job_over, err);
		if (r < 0)
			tell_failure(k, err);
	}
	if (r < 0) {
		log_error("%s", err->text);
		wait_for_end();
	}
	return end_run(k, job_over, err);
}

/* Leaves the cgroups of the step. If this fails, we must end: Slurm would wait for our end, and
 * drain the node. */
static int leave_step(struct manager *k, struct error *err)
{
	int r = job_cgroup_leave(err);

	if (r < 0)
		(void)clean_release(&k->dir, &k->st, false, clock_ms() + CLEANUP_MS, 0, NULL);
	return r;
}

int manager_run(struct manager *k)
{
	struct error err = ERROR_INIT;
	int r;

	log_open("stage-keeper", -1, 1);
	log_set_job(k->st.job_id);
	/* A clean-up needs these two facts to know which process it may end. Without them, nothing
	 * is begun. */
	state_get_boot(k->st.boot);
	if (!k->st.boot[1] || helper_get_keeper(&k->st.keeper) < 0)
		r = error_set(&err, EIO, "boot_id and stat of /proc can't be read; mount it");
	else
		r = take_dir(k, &err);
	/* Before this point, there is no directory by which a clean-up could find us, so we end
	 * with our step. */
	if (r == 0 && k->in_step)
		r = leave_step(k, &err);
	if (r == 0)
		r = live(k, &err);
	if (r < 0) {
		log_error("%s", err.text);
		answer('E', err.text);
	}
	jobdir_deinit(&k->dir);
	if (k->st.ending)
		node_metrics_add(k);
	reap_aside(k->st.uid);
	return r < 0;
}
