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

#define REAP_MAX_LEFT 1024 /* for one run; others wait for the next one (leftover_for_each()) */

enum fate {
	FATE_GO,       /* the job is over: clean up */
	FATE_ASK,      /* the keeper is dead: ask Slurm whether the job is over */
	FATE_ASK_ENDS, /* the keeper lives: ask the same, and end the keeper if the job is over */
	FATE_STOPPED,  /* the process that cleans up is stopped */
	FATE_DONE,     /* it was cleaned up, or nothing needs to be done */
};

struct left {
	struct jobdir_id id;
	enum fate fate;
	uid_t uid;
	struct state_proc keeper;
	bool has_record;
	bool over;	   /* Slurm's last answer: the job is over */
	uint64_t asked_ms; /* time that Slurm's answer took */
	struct leftover_marks marks;
	bool is_quiet;		   /* the log got a line about it within the last hour */
	uint64_t had_turn_ms;	   /* its last turn before this run */
	uint64_t user_had_turn_ms; /* the latest last turn of all leftovers of its user */
	int r;			   /* result of the clean-up */
	uint64_t failing_ms;	   /* time that the failed clean-up took */
	char why[JOBLIFE_TEXT_SIZE];
};

struct reap {
	struct left left[REAP_MAX_LEFT];
	size_t n_left;
	bool by_timer;
	bool has_told;	     /* the log got a line about why something is left */
	uint64_t in_vain_ms; /* time spent on questions that Slurm did not answer */
	uint64_t ask_until_ms;
	int r; /* -errno of a leftover that stays; 0: none */
};

/* Asks Slurm about the jobs with FATE_ASK and FATE_ASK_ENDS. Jobs that are not over become
 * FATE_DONE. Returns the number of jobs that are over. */
size_t reap_ask_all(struct reap *reap);

/* Prints a line on standard error, for the person who started the reaper. The log has its own
 * lines. */
void reap_say(const struct left *l, const char *text, const char *why);
/* Counts a failure, and logs l->why. Returns false if the log already has such a line. */
bool reap_report_failure(struct left *l);
/* Returns the number of calls of reap_report_failure(). */
unsigned reap_get_n_failures(void);
/* Reports that the job runs and its data stays. has_process: the job has a process on this node. */
void reap_report_running(const struct left *l, bool has_process);
/* Reports that the data stays, and why. life: Slurm's answer; nothing is reported for a job that is
 * over. */
void reap_report_kept(struct left *l, enum joblife life);
/* Reports a failure r of the operation that what describes. Returns FATE_DONE, so the next run
 * tries again. */
enum fate reap_pass_over(struct reap *reap, struct left *l, int r, const char *what);
