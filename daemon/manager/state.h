/*
 * state: the keeper's record of everything that must be removed. It is the file `state` in the
 * job's run directory, with lines of key=value. Each entry was written before the object that it
 * names was made. Mounts are not in it, because the directories m/<k> show them.
 *
 * After an upgrade or a downgrade, a clean-up reads records of keepers of another version. Old and
 * new versions can read each other's records: version 2 was the first that was installed anywhere,
 * all later versions have the same head, and additional facts are in lines with new words, which
 * earlier versions skip. The objects of such lines must disappear with the keeper, or may stay
 * until the node's next boot. Other objects need a separate file.
 *
 * Only root can write to the file's directory. A record that cannot be read counts as empty. Then a
 * clean-up removes what has the fixed names of the run directory.
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
