/*
 * state: the keeper's record of what must be taken away, the file `state` in the job's run
 * directory, lines of key=value. Whatever it names was written there before it was made. Mounts are
 * not in it: the directories m/<k> tell of them.
 *
 * After an upgrade or a downgrade a clean-up meets records of keepers that are of another version.
 * They stay readable both ways: version 2 is the first that was installed anywhere, the head of all
 * that follow is its head, and what a later one has to say is in lines of other words, which
 * earlier ones skip. What they name must go with the keeper or may stay until the node's next boot;
 * what may not needs a file of its own.
 *
 * It stands where only root writes. One that can't be read counts as empty: clean then takes away
 * what stands at the fixed names of the run directory, which is ours in any case.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/rundir.h"
#include "common/protocol/sluid.h"
#include "common/slurm/job-cgroup.h"

#define STATE_MAX_PROCS 256
#define STATE_MAX_TIERS 16
#define STATE_BOOT_SIZE 37
#define STATE_NODE_SIZE 256

/* A process by pid and start time: none but ours is ever signalled. */
struct state_proc {
	pid_t pid;	/* 0: none */
	uint64_t start; /* clock ticks since boot, field 22 of /proc/<pid>/stat */
};

struct state_tier {
	char path[PATH_MAX]; /* of the tier, expanded; "": free */
	bool as_user;	     /* the job's directory in it is made and removed by the user */
	bool made;	     /* by this keeper; not in the record */
	uint32_t keep_s;     /* in a sweep: what is kept stays so long at most; 0: not known */
};

struct state {
	uint32_t job_id;
	uint32_t restart;
	uid_t uid; /* 0: not known */
	gid_t gid;
	char boot[STATE_BOOT_SIZE];
	char node[STATE_NODE_SIZE]; /* NodeName, as Slurm's prolog has it; "": not known */
	char sluid[SLUID_SIZE];	    /* Slurm's name for this run of the job; "": not known */
	struct state_proc keeper;
	bool ending; /* a clean-up has begun: the keeper did not crash */
	bool failed; /* the keeper could not set the job up and waits for its end */
	struct state_proc procs[STATE_MAX_PROCS];
	struct state_tier tiers[STATE_MAX_TIERS];
};

/* Reads a record from the file fd; *st is overwritten, zeroed on failure. -EPROTO: it is none. */
int state_read(int fd, struct state *st);

/* A record as a text, the caller's to free, on failure too. 0 or -errno. */
int state_print(const struct state *st, char **textp, size_t *sizep);

/* Whose cgroups are looked for. Lent: as long as st. */
struct job_cgroup_job state_get_job(const struct state *st);

/* The place of that pid (0: a free one), or NULL. */
struct state_proc *state_find_proc(struct state *st, pid_t pid);
/* The place of that path ("": a free one), or NULL. */
struct state_tier *state_find_tier(struct state *st, const char *path);

/* Id of the running kernel's boot; buf has STATE_BOOT_SIZE bytes. "-" if not known. */
void state_get_boot(char *buf);
/* Was it written in this boot? */
bool state_is_current(const struct state *st);
