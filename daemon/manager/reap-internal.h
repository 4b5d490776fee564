/*
 * What the files of the reaper share: the leftovers of a run. reap.c looks at them and cleans up,
 * reap-ask.c asks Slurm whether their jobs are over, reap-report.c reports what stays.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/manager/jobdir.h"
#include "daemon/manager/joblife.h"
#include "daemon/manager/leftover.h"
#include "daemon/manager/state.h"

#define REAP_MAX_LEFT 1024 /* in a run; more wait for the next one (leftover_for_each()) */

enum fate {
	FATE_GO,       /* its job is over */
	FATE_ASK,      /* of a dead keeper; Slurm has to be asked */
	FATE_ASK_ENDS, /* the same, of a keeper that lives */
	FATE_STOPPED,  /* what cleans up is stopped */
	FATE_DONE,     /* cleaned up, or nothing to do */
};

struct left {
	struct jobdir_id id;
	enum fate fate;
	uid_t uid;
	struct state_proc keeper;
	bool has_record;
	bool over;	   /* when Slurm was asked last */
	uint64_t asked_ms; /* what that took */
	struct leftover_marks marks;
	bool is_quiet;		   /* the log has a line on it already that is young enough */
	uint64_t had_turn_ms;	   /* before this run */
	uint64_t user_had_turn_ms; /* the latest of its user's leftovers */
	int r;			   /* of the try to clean up */
	uint64_t failing_ms;	   /* what that took, where it failed */
	char why[JOBLIFE_TEXT_SIZE];
};

struct reap {
	struct left left[REAP_MAX_LEFT];
	size_t n_left;
	bool by_timer;
	bool has_told;	     /* why something is left */
	uint64_t in_vain_ms; /* what Slurm did not answer took */
	uint64_t ask_until_ms;
	int r; /* what that failed by */
};

/* Asks Slurm about the jobs with FATE_ASK and FATE_ASK_ENDS; the others become FATE_DONE if they
 * are not over. Returns how many are over. */
size_t reap_ask_all(struct reap *reap);

/* To the person who started the reaper. The log has lines of its own. */
void reap_say(const struct left *l, const char *text, const char *why);
/* l->why, to the log. False: the log has it already. */
bool reap_report_failure(struct left *l);
/* All calls of reap_report_failure(). */
unsigned reap_get_n_failures(void);
/* The job runs, so its data stays. has_process: on this node. */
void reap_report_running(const struct left *l, bool has_process);
/* life: Slurm's answer; a job that is over is not reported. */
void reap_report_kept(struct left *l, enum joblife life);
/* The next run looks at it again. */
enum fate reap_pass_over(struct reap *reap, struct left *l, int r, const char *what);
