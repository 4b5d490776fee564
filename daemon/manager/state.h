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

/* A process, identified by its pid and start time, so that no signal reaches a later process with
 * the same pid. */
struct state_proc {
	pid_t pid;	/* 0: none */
	uint64_t start; /* clock ticks since boot, field 22 of /proc/<pid>/stat */
};

struct state_tier {
	char path[PATH_MAX]; /* path of the tier, expanded; "": this entry is free */
	bool as_user;	     /* the user makes and removes the job's directory in it */
	bool made;	     /* this keeper has made the directory; not in the record */
	uint32_t keep_s;     /* in a sweep: maximum age of kept data in seconds; 0: not known */
};

struct state {
	uint32_t job_id;
	uint32_t restart;
	uid_t uid; /* 0: not known */
	gid_t gid;
	char boot[STATE_BOOT_SIZE];
	char node[STATE_NODE_SIZE]; /* Slurm's NodeName, from the prolog; "": not known */
	char sluid[SLUID_SIZE];	    /* Slurm's name for this run of the job; "": not known */
	struct state_proc keeper;
	bool ending; /* a clean-up has begun: the keeper did not crash */
	bool failed; /* the keeper could not set up the job and waits for its end */
	struct state_proc procs[STATE_MAX_PROCS];
	struct state_tier tiers[STATE_MAX_TIERS];
};

/* Reads a record from the file fd into *st, which is zeroed after a failure. Returns 0 or -errno.
 * -EPROTO: the file is not a complete record. */
int state_read(int fd, struct state *st);

/* Prints a record to *textp, which the caller frees, also after a failure. Returns 0 or -errno. */
int state_print(const struct state *st, char **textp, size_t *sizep);

/* Returns the job for look-ups of its cgroups. It is valid as long as st. */
struct job_cgroup_job state_get_job(const struct state *st);

/* Returns the entry of that pid (0: a free entry), or NULL. */
struct state_proc *state_find_proc(struct state *st, pid_t pid);
/* Returns the entry of that path ("": a free entry), or NULL. */
struct state_tier *state_find_tier(struct state *st, const char *path);

/* Writes the boot id of the running kernel to buf, which has STATE_BOOT_SIZE bytes. "-" if it is
 * not known. */
void state_get_boot(char *buf);
/* Returns true if the record was written in this boot, or if the boot id is not known. */
bool state_is_current(const struct state *st);
