/*
 * From the plugin's exec to the moment that stagingd can be started. As long as the plugin waits
 * (500 ms at most) nothing is done that could take long: the account is looked up after the answer,
 * as that may ask the network.
 *
 * When the job can't be set up, the keeper says so to the plugin, leaves the sentence in the file
 * `failed` for the job's tasks, and stays until the job's end: as long as it holds the lock
 * nobody takes the sentence away.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mountinfo.h"
#include "common/rundir.h"
#include "daemon/keeper/clean.h"
#include "daemon/keeper/jobmem.h"
#include "daemon/keeper/metrics.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/reap.h"

#define LEFTOVER_MS 300	 /* for what an earlier run of the job left, before it is moved aside */
#define ANOTHER_MS 10000 /* for another keeper of this very run, which reads its configuration */
#define CLEANUP_MS 10000 /* where no configuration could be loaded */
#define BEHIND_MS 3600000 /* for content that nobody waits for: disks may be slow */
#define INODES_SPARE 4096

enum {
	RUN_E_SUCCESS,
	RUN_E_ANOTHER, /* a keeper of this very run is there: of another step on the node */
	RUN_E_BEGINNING, /* and does not know its answer yet */
};

void keeper_get_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGCHLD);
}

/* Takes fds 0 and 1 over and leaves everything else of whoever started us. */
static int detach(struct keeper *k)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t set;

	k->spec_fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	k->status_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	if (k->spec_fd < 0 || k->status_fd < 0 || null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	keeper_get_signals(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	return chdir("/") < 0 ? -errno : 0;
}

static void answer(struct keeper *k, char verdict, const char *text)
{
	if (k->status_fd >= 0)
		dprintf(k->status_fd, "%c%s", verdict, text);
	fd_closep(&k->status_fd);
	k->status_fd = -1;
}

/* Is a keeper of this run at work there? Its answer becomes ours. */
static int find_another(struct keeper *k, const struct jobdir *d)
{
	char text[ERROR_MAX_SIZE];
	struct mountinfo m;
	struct state st;

	if (state_read(d->fd, &st) < 0 || st.restart != k->st.restart || st.ending ||
	    !state_is_current(&st) || !proc_is_alive(&st.keeper))
		return RUN_E_SUCCESS;
	if (st.failed && proc_read(d->fd, RUNDIR_FAILED, text, sizeof(text)) > 0)
		answer(k, 'E', text);
	else if (mountinfo_find_at(&m, d->fd, RUNDIR_MEMORY) == 0)
		answer(k, 'R', "");
	else
		return RUN_E_BEGINNING;
	return RUN_E_ANOTHER;
}

/* There is a directory for this job: another keeper's, or a leftover. 0: it is out of the way. */
static int settle_leftover(struct keeper *k, struct jobdir *d, struct error *err)
{
	const struct clean_options o = { .end_keeper = true, .timeout_ms = LEFTOVER_MS };
	const uint64_t begin_ms = clock_ms();
	int r, another;

	do {
		another = find_another(k, d);
		if (another == RUN_E_ANOTHER)
			return another;
		r = jobdir_lock(d, clock_ms() + 10, NULL);
	} while (r == -EBUSY && clock_ms() < begin_ms + (another ? ANOTHER_MS : LEFTOVER_MS));
	jobdir_unlock(d);
	r = clean_job(d->base_fd, d->name, &o, err);
	if (r == 0)
		return 0;
	log_warning("%s: moved aside", err->text);
	return jobdir_trash(d, err);
}

static int take_dir(struct keeper *k, struct error *err)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(NULL, err);
	char name[16];
	int r = base;

	snprintf(name, sizeof(name), "%u", k->st.job_id);
	for (int tries = 0; r >= 0 && tries < 10; tries++) {
		_cleanup_(jobdir_deinit) struct jobdir left = JOBDIR_INIT;

		r = jobdir_create(&k->dir, base, name, err);
		if (r == 0)
			r = jobdir_lock(&k->dir, 0, err);
		if (r == 0)
			return 0;
		jobdir_deinit(&k->dir);
		if (r < 0 && r != -EEXIST && r != -EBUSY)
			return r;
		r = jobdir_open(&left, base, name, err);
		if (r == 0)
			r = settle_leftover(k, &left, err);
		if (r == RUN_E_ANOTHER && left.fd >= 0)
			return r;
	}
	return r < 0 ? r : error_set(err, EBUSY, "the job's run directory is in use");
}

static int check_site(struct keeper *k, struct error *err)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	const struct hand_site *s = &k->site;

	if (s->r < 0)
		return s->text[0] ? error_set(err, -s->r, "%s", s->text)
				  : error_errno(err, -s->r, "stage-hand can't be run, is libexec complete?");
	if (s->launch == CONF_LAUNCH_PROLOG && k->in_step)
		return error_set(err, EPERM,
				 "Launch=prolog, and no prolog has started staging on "
				 "this node: check PrologFlags in slurm.conf");
	if (s->log_file[0])
		k->log_fd = open(s->log_file, flags | O_NOCTTY, 0640);
	log_open("stage-keeper", k->log_fd, 1);
	return s->enabled ? 0 : error_set(err, EPERM, "%s", s->text);
}

static int mount_memory(struct keeper *k, struct error *err)
{
	struct mounts_memory m = { .uid = k->st.uid, .gid = k->st.gid };
	struct sysinfo si;
	uint64_t all;

	if (sysinfo(&si) < 0)
		return error_errno(err, errno, "find the machine's memory");
	all = (uint64_t)si.totalram * si.mem_unit;
	m.size = k->memory_size = all / 100 * k->site.max_memory_percent;
	/* The kernel's own rule where the site has none: an inode for every other page. */
	m.inodes = k->site.max_files ? k->site.max_files + INODES_SPARE : all / 4096 / 2;
	return mounts_memory(k->dir.fd, &m, err);
}

/* Bound by root in root's directory, so nobody else can be there; listened on by stagingd, so
 * that SO_PEERCRED tells its clients the job's user. */
static int bind_socket(struct keeper *k, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int r;

	k->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" RUNDIR_SOCK, k->dir.fd);
	umask(0177);
	r = bind(k->listen_fd, (struct sockaddr *)&addr, sizeof(addr));
	umask(022);
	if (r < 0 || fchownat(k->dir.fd, RUNDIR_SOCK, k->st.uid, k->st.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "make the job's socket");
	return 0;
}

static int set_up(struct keeper *k, struct error *err)
{
	int r = 0;

	if (k->st.uid == 0)
		r = error_set(err, EPERM, "nothing is staged for root: submit as a user");
	if (r == 0)
		r = check_site(k, err);
	if (r == 0)
		r = k->daemon_fd = launch_open_program(STAGE_LIBEXEC_DIR "/stagingd", err);
	if (r >= 0)
		r = k->worker_fd = launch_open_program(STAGE_LIBEXEC_DIR "/stage-worker", err);
	if (r >= 0)
		r = mount_memory(k, err);
	if (r >= 0 && mkdirat(k->dir.fd, RUNDIR_MOUNTS, 0711) < 0)
		r = error_errno(err, errno, "make %s", RUNDIR_MOUNTS);
	return r < 0 ? r : bind_socket(k, err);
}

/* Leaves the sentence and waits for the job's end. */
static void fail(struct keeper *k, const struct error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_(fd_closep) int fd = openat(k->dir.fd, RUNDIR_FAILED, flags, 0644);
	sigset_t set;
	int sig;

	log_error("%s", err->text);
	dprintf(fd, "%s\n", err->text);
	k->st.failed = true;
	state_write(k->dir.fd, &k->st);
	answer(k, 'E', err->text);
	keeper_get_signals(&set);
	while (sigwait(&set, &sig) != 0 || sig == SIGCHLD)
		;
}

int keeper_find_path(const struct keeper *k, const char *which, struct hand_path *path)
{
	const struct hand_job job = { k->st.job_id, k->st.uid, k->st.gid, k->node };

	return hand_find_path(k->conf_path, which, &job, path);
}

static int serve(struct keeper *k, bool *job_overp, struct error *err)
{
	bool known;
	int r;

	k->user.uid = k->st.uid;
	k->user.gid = k->st.gid;
	r = hand_get_account(&k->user, &known);
	if (r == -ECANCELED)
		return 0;
	if (r < 0)
		return error_errno(err, -r, "find the account of uid %u", k->st.uid);
	if (!known)
		log_warning("uid %u has no account here: it is staged with gid %u alone", k->st.uid,
			    k->st.gid);
	r = keeper_serve(k, job_overp);
	return r < 0 ? error_errno(err, -r, "start stagingd") : 0;
}

static int live(struct keeper *k, struct error *err)
{
	bool job_over = true;
	int r = state_write(k->dir.fd, &k->st);

	/* Without one nobody could find us and end us: nothing may stay, we ourselves least of all. */
	if (r < 0) {
		(void)clean_release(&k->dir, &k->st, false, clock_ms() + CLEANUP_MS, 0, NULL);
		return error_errno(err, -r, "write the job's record");
	}
	/* By the record a clean-up finds us, however long it takes to read the configuration. */
	k->site.r = hand_get_site(k->conf_path, &k->site);
	if (k->site.r == 0 && k->site.launch == CONF_LAUNCH_STEP && !k->in_step) {
		r = clean_release(&k->dir, &k->st, false, clock_ms() + CLEANUP_MS, 0, err);
		answer(k, 'S', "");
		return r;
	}
	r = set_up(k, err);
	if (r == 0) {
		answer(k, 'R', "");
		r = serve(k, &job_over, err);
	}
	if (r < 0)
		fail(k, err);
	k->st.ending = true;
	state_write(k->dir.fd, &k->st);
	return clean_release(&k->dir, &k->st, job_over,
			     clock_ms() + (k->site.r == 0 ? k->site.cleanup_timeout_ms : CLEANUP_MS),
			     BEHIND_MS, err);
}

int keeper_run(struct keeper *k)
{
	struct error err = ERROR_INIT;
	int r = detach(k);

	log_open("stage-keeper", -1, 1);
	log_set_job(k->st.job_id);
	if (r < 0)
		return 1;
	/* By these a clean-up knows whom it may end: without them nothing is begun. */
	state_get_boot(k->st.boot);
	if (!k->st.boot[1] || proc_get(getpid(), &k->st.keeper) < 0)
		r = error_set(&err, EIO, "boot_id and stat of /proc can't be read; mount it");
	else
		r = take_dir(k, &err);
	/* As long as there is no directory, by which a clean-up finds us, we end with our step. */
	if (r == 0 && k->in_step)
		jobmem_leave();
	if (r == 0)
		r = live(k, &err);
	if (r < 0) {
		log_error("%s", err.text);
		answer(k, 'E', err.text);
	}
	jobdir_deinit(&k->dir);
	if (k->st.ending)
		metrics_add(k);
	reap_aside();
	return r < 0;
}
