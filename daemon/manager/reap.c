/*
 * A run has these steps. Their order ensures that a clean-up that is slow or hangs delays no other
 * clean-up:
 *
 *  1. All directories are examined. This step waits for nothing.
 *  2. What must be removed in any case is removed. Each clean-up may take QUICK_MS, and all failed
 *     clean-ups of one user together CLEAN_USER_MS.
 *  3. For jobs of which the node cannot tell whether they run, Slurm is asked twice, with a pause.
 *     The first answer alone is not enough: slurmctld may have just started, or the job may be
 *     about to end.
 *  4. The jobs that are over by these answers are cleaned up, each within QUICK_MS. Keepers of
 *     such jobs that were not ended get the time that an epilog gives them.
 *  5. The clean-ups that have failed are repeated, each for at most REAP_TIMEOUT_MS, all for at
 *     most RETRY_ALL_MS.
 *
 * The timer's systemd unit allows five minutes for a run. So in runs of the timer, steps 2 and 4
 * take at most CLEAN_ALL_MS each, and the next run continues. No lock is held while Slurm is
 * asked, because the epilog may run at that time.
 *
 * In each of the steps 2 to 5, the leftovers whose last turn was longest ago come first, and the
 * users whose last turn was longest ago (leftover.h). So a leftover that fails each time, or a
 * user who stops the processes that work for him, delays others in one run only.
 */
#include "daemon/manager/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "daemon/manager/breaker.h"
#include "daemon/manager/clean.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/joblife.h"
#include "daemon/manager/leftover.h"
#include "daemon/manager/node-metrics.h"
#include "daemon/manager/reap-internal.h"
#include "daemon/manager/state.h"
#include "daemon/manager/tier.h"

#define QUICK_MS 2000
#define REAP_TIMEOUT_MS 30000
#define RETRY_ALL_MS 40000
#define CLEAN_ALL_MS 30000
#define CLEAN_USER_MS 10000 /* a user can stop and kill the processes that work for him */
#define END_KEEPER_MS 10000
#define PAUSE_US 2000000
static struct state record; /* record of the job that is examined */

static int clean_one(struct left *l, const struct clean_options *o)
{
	struct error err = ERROR_INIT;

	leftover_begin_turn(&l->id, &l->marks);
	log_set_muted(l->is_quiet);
	l->r = clean_job(&l->id, o, &err);
	log_set_muted(false);
	snprintf(l->why, sizeof(l->why), "%.*s", JOBLIFE_TEXT_SIZE - 1, l->r < 0 ? err.text : "");
	if (l->r >= 0)
		l->fate = FATE_DONE;
	return l->r;
}

/* --- 1. look --------------------------------------------------------------------------------- */

/* Decides about a directory whose lock we hold. */
static enum fate look_at_dead(struct reap *reap, const struct jobdir *d, struct left *l)
{
	const int r = jobdir_read_state(d, &record);

	if (r < 0)
		jobdir_find_owner(d, &record);
	if (d->id.aside_ms)
		return FATE_GO;
	if (r < 0 && r != -ENOENT && r != -EPROTO) /* the record may list processes that still
						    * run */
		return reap_pass_over(reap, l, r, "its record can't be read");
	record.job_id = d->id.job_id;
	l->has_record = r == 0;
	l->fate = FATE_ASK;
	breaker_report_death(d, &record);
	switch (joblife_look(&record)) {
	case JOBLIFE_OVER:
		return FATE_GO;
	case JOBLIFE_UNKNOWN:
		return FATE_ASK;
	case JOBLIFE_RUNS:
		break;
	}
	if (l->has_record)
		reap_report_running(l, true);
	return FATE_DONE;
}

/* Decides about a directory whose lock another process holds. This is a keeper, or a clean-up,
 * which writes itself into the record when it moves the directory aside. */
static enum fate look_at_locked(const struct reap *reap, const struct jobdir *d)
{
	if (jobdir_read_state(d, &record) < 0 || !state_is_current(&record) || !record.keeper.pid)
		return FATE_DONE;
	if (d->id.aside_ms || record.ending)
		return state_proc_is_stopped(&record.keeper) ? FATE_STOPPED : FATE_DONE;
	if (joblife_look(&record) == JOBLIFE_RUNS || !state_proc_is_alive(&record.keeper))
		return FATE_DONE;
	return !reap->by_timer || joblife_is_time_to_ask(&record) ? FATE_ASK_ENDS : FATE_DONE;
}

static int look_at(void *arg, const struct jobdir_id *id)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	struct reap *reap = arg;
	struct left l = { .id = *id };
	struct error err = ERROR_INIT;
	int r = jobdir_open(&d, id, &err);

	memset(&record, 0, sizeof(record));
	if (r == 0)
		r = jobdir_lock(&d, 0, &err);
	leftover_read(&d, &l.marks);
	l.is_quiet = reap->by_timer && leftover_is_told(&l.marks);
	l.had_turn_ms = l.marks.turn_ms;
	if (r == 0)
		l.fate = look_at_dead(reap, &d, &l);
	else if (r == -EBUSY)
		l.fate = look_at_locked(reap, &d);
	else if (r < 0)
		l.fate = reap_pass_over(reap, &l, r, "its directory can't be locked");
	else
		l.fate = FATE_DONE;
	l.uid = record.uid;
	l.keeper = record.keeper;
	if (l.fate != FATE_DONE)
		reap->left[reap->n_left++] = l;
	return 0;
}

static int compare_turns(const void *a, const void *b)
{
	const struct left *x = a, *y = b;

	if (x->user_had_turn_ms != y->user_had_turn_ms)
		return x->user_had_turn_ms < y->user_had_turn_ms ? -1 : 1;
	if (x->had_turn_ms != y->had_turn_ms)
		return x->had_turn_ms < y->had_turn_ms ? -1 : 1;
	return 0;
}

/* If the time is too short for all leftovers, the next run begins with those that had no turn. Then
 * users who stop the processes that work for them are the last, however many jobs they have. */
static void sort_by_turns(struct reap *reap)
{
	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++)
		for (const struct left *other = reap->left; other < reap->left + reap->n_left;
		     other++)
			if (other->uid == l->uid && other->had_turn_ms > l->user_had_turn_ms)
				l->user_had_turn_ms = other->had_turn_ms;
	qsort(reap->left, reap->n_left, sizeof(reap->left[0]), compare_turns);
}

/* --- 2. to 4.: clean-up ---------------------------------------------------------------------- */

static bool has_had_his_time(const struct reap *reap, uid_t uid)
{
	uint64_t ms = 0;

	for (const struct left *l = reap->left; l < reap->left + reap->n_left; l++)
		if (l->uid == uid)
			ms += l->failing_ms;
	return ms >= CLEAN_USER_MS;
}

/* A person who calls the reaper waits until all is done. */
static uint64_t get_clean_deadline(const struct reap *reap)
{
	return reap->by_timer ? clock_ms() + CLEAN_ALL_MS : UINT64_MAX;
}

static void clean_all(struct reap *reap, enum fate fate)
{
	const struct clean_options o = { .timeout_ms = QUICK_MS };
	const uint64_t until_ms = get_clean_deadline(reap);

	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++) {
		const uint64_t begin_ms = clock_ms();

		if (l->fate != fate || begin_ms >= until_ms || has_had_his_time(reap, l->uid))
			continue;
		if (clean_one(l, &o) < 0)
			l->failing_ms = clock_ms() - begin_ms;
	}
}

/* Opens the job's directory if its keeper is still the same. A job that was started again has
 * another keeper. Returns 0: d is open; 1: the keeper is another one, or gone; -errno. */
static int open_same_keeper(struct jobdir *d, const struct left *l)
{
	int r = jobdir_open(d, &l->id, NULL);

	if (r == 0)
		r = jobdir_read_state(d, &record);
	if (r != 0)
		return r == -ENOENT ? 1 : r;
	return record.keeper.pid != l->keeper.pid || record.keeper.start != l->keeper.start;
}

static void end_living(struct reap *reap, struct left *l)
{
	const struct clean_options o = { .end_keeper = true, .timeout_ms = END_KEEPER_MS };
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	int r = open_same_keeper(&d, l);

	if (r != 0) {
		l->fate = r < 0 ? reap_pass_over(reap, l, r, "its record can't be read")
				: FATE_DONE;
		return;
	}
	jobdir_deinit(&d);
	log_set_job(l->id.job_id);
	log_warning("the job is over (%s) and nobody has ended its keeper: it is ended now",
		    l->why);
	log_set_job(0);
	reap_say(l, "it is over and nobody has ended its keeper, which is ended now", l->why);
	clean_one(l, &o);
}

/* Kills a stopped keeper and cleans up. The end of its manager frees the lock. */
static void end_stopped(struct reap *reap, struct left *l)
{
	const struct clean_options o = { .timeout_ms = QUICK_MS };
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	int r = open_same_keeper(&d, l);

	if (r != 0 || !state_proc_is_stopped(&record.keeper)) {
		l->fate = r < 0 ? reap_pass_over(reap, l, r, "its record can't be read")
				: FATE_DONE;
		return;
	}
	log_set_job(l->id.job_id);
	log_warning("the process that cleans up after the job is stopped: it is killed, and the "
		    "clean-up continues");
	log_set_job(0);
	reap_say(l,
		 "the process that cleans up after it is stopped: it is killed, and the clean-up "
		 "continues",
		 NULL);
	state_proc_signal(&record.keeper, SIGKILL);
	(void)jobdir_lock(&d, clock_ms() + QUICK_MS, NULL);
	jobdir_deinit(&d);
	clean_one(l, &o);
}

static void for_fate(struct reap *reap, enum fate fate,
		     void (*fn)(struct reap *reap, struct left *l))
{
	const uint64_t until_ms = get_clean_deadline(reap);

	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++)
		if (l->fate == fate && clock_ms() < until_ms)
			fn(reap, l);
}

static void ask_and_end(struct reap *reap)
{
	bool stopped = false;

	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++)
		stopped = stopped || l->fate == FATE_STOPPED;
	if (reap_ask_all(reap) == 0 && !stopped)
		return;
	usleep(PAUSE_US);
	(void)reap_ask_all(reap);
	clean_all(reap, FATE_ASK);
	for_fate(reap, FATE_STOPPED, end_stopped);
	for_fate(reap, FATE_ASK_ENDS, end_living);
}

/* --- 5. second try --------------------------------------------------------------------------- */

static void try_again(struct reap *reap)
{
	const struct clean_options o = { .timeout_ms = REAP_TIMEOUT_MS };
	const uint64_t until_ms = clock_ms() + RETRY_ALL_MS;

	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++) {
		if (l->r >= 0)
			continue;
		if (clock_ms() < until_ms && clean_one(l, &o) >= 0)
			continue;
		reap->has_told |= reap_report_failure(l);
		reap->r = reap->r ? reap->r : l->r;
	}
}

static int reap_one_aside(void *arg, const struct jobdir_id *id)
{
	const struct clean_options o = { .timeout_ms = REAP_TIMEOUT_MS,
					 .only_uid = *(const uid_t *)arg };
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	struct left l = { .id = *id };

	if (!id->aside_ms || jobdir_open(&d, id, NULL) != 0)
		return 0;
	leftover_read(&d, &l.marks);
	jobdir_deinit(&d);
	l.is_quiet = leftover_is_told(&l.marks);
	if (clean_one(&l, &o) < 0)
		reap_report_failure(&l);
	return 0;
}

void reap_aside(uid_t uid)
{
	(void)jobdir_for_each(reap_one_aside, &uid, NULL);
}

int reap_all(bool by_timer, struct error *err)
{
	static struct reap reap;
	static struct helper_site site;
	_cleanup_(fd_closep) int base = jobdir_open_base(false, err);
	int r;

	if (base < 0)
		return base;
	memset(&reap, 0, sizeof(reap));
	reap.by_timer = by_timer;
	helper_get_site_and_log(&site);
	r = leftover_for_each(look_at, &reap, REAP_MAX_LEFT, err);
	sort_by_turns(&reap);
	clean_all(&reap, FATE_GO);
	ask_and_end(&reap);
	try_again(&reap);
	node_metrics_set_reaped(&site, breaker_reset(), reap_get_n_failures());
	tier_sweep(clock_ms() + REAP_TIMEOUT_MS, by_timer);
	if (r == 0 && reap.r < 0)
		r = reap.has_told
			    ? error_errno(err, -reap.r, "something is left in %s", STAGE_RUN_DIR)
			    : reap.r;
	return r;
}
