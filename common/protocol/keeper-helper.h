/*
 * keeper-helper: the tasks that stage-helper, a program without privileges, does for stage-keeper,
 * and its answers. It runs as the job's user for tasks on the user's files. It runs as the system
 * user of the package, which owns nothing, to read the site's configuration: root acts on the
 * answer, so no other user may be able to influence it. (uid 65534, nobody, is shared with other
 * services.) Others may execute the program, but not read it (mode 0711), so a process with the
 * same uid cannot trace it. The first argument is the task; the answer is one struct of a fixed
 * size that begins with 0 or -errno. In common/ because both programs need it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-privops.h"

#define HELPER_FD_ANSWER 3
#define HELPER_FD_DIR 4

#define HELPER_SYSTEM_USER "stage-data"
#define HELPER_MAX_GROUPS 65536
#define HELPER_NAME_SIZE 256

/* Tasks of the system user. CONF: path of the configuration, "" for the default; root passes it on
 * from its own command line. */

/* "site" CONF: the settings that root needs; root itself asks for them. */
struct helper_site {
	int32_t r;
	int32_t launch; /* enum conf_launch */
	int32_t nice;
	uint32_t max_memory_percent;
	uint64_t max_files, cleanup_timeout_ms, abort_after_ms, keep_free_memory;
	bool enabled, mounts, has_namespace;
	int32_t programs[PRIVOP_N_PROGRAMS]; /* filled in by root: 0; -errno: it cannot be opened;
					      * -EPERM: it does not belong to root alone */
	char log_file[PATH_MAX];	     /* "": none */
	char metrics[PATH_MAX];		     /* "": none */
	char text[1024]; /* the error in the configuration, or the reason why staging is
				  * off */
};

/*
 * "path" CONF WHICH JOB UID GID NODE: resolves a path of the configuration for a job. NODE: "" for
 * the host's name. WHICH: the index of a tier (for a sweep, which handles all tiers), its mark
 * (common/config/conf.h; for a job, whose configuration may be older than this one), or
 * HELPER_NAMESPACE. JOB 0: for no particular job (a sweep). -EIO: the configuration cannot be read;
 * -EINVAL: not a disk tier, or JOB is 0 and the path depends on the job or the site makes it;
 * -ENOENT, -ESTALE: no tier has that index, or that mark.
 */
#define HELPER_NAMESPACE "-1"
struct helper_path {
	int32_t r;
	bool by_site;	 /* Provided=site */
	uint32_t keep_s; /* MaxKeep= */
	char path[PATH_MAX];
};

/* "metrics": reads the figures from fd 4 (RUNDIR_METRICS) and writes them as text to fd 3, which is
 * a file here. The exit status is the answer: 0, or KEEPER_EXIT_EXEC plus an errno. */

/* "account" UID GID: the groups, name and home of the user, for the user's processes; root itself
 * asks for them. */
struct helper_user {
	int32_t r;
	bool known; /* the account exists; otherwise only the gid is used */
	uint32_t n_groups;
	gid_t groups[HELPER_MAX_GROUPS];
	/* Values for its environment: without control bytes, and never empty. */
	char name[HELPER_NAME_SIZE], home[PATH_MAX];
};

/* A task of the job's user, "over" CONF JOB NODE: asks Slurm (squeue) whether the job is over on
 * this node. NODE: its NodeName, or "" if it is not known. -ESRCH: it is over, and text has the
 * reason; 0: it is not over; another -errno: Slurm gives no answer, and text has the reason. */
struct helper_over {
	int32_t r;
	char text[512];
};

/*
 * As the user; fd 4 is a directory. Each answers with an int32_t.
 *
 *	release                 fd 4: the tmpfs. Removes the objects outside it that the manifests
 *	                        list
 *	empty DEADLINE          fd 4: the tmpfs. Empties the user's directories in it
 *	tier-make JOB PATH DEADLINE MAX
 *	                        makes the job's directory in the tier PATH (tier-name.h). A result
 *	                        above 0 is the mode of a tier to which others may write; then
 *	                        nothing is made
 *	tier-aside JOB PATH DEADLINE MAX
 *	                        renames the job's directory to a leftover
 *	tier-empty JOB PATH DEADLINE MAX
 *	                        removes the leftovers. PATH "": the tier is fd 4, and the leftovers
 *	                        are only emptied, because root removes them. Also removes kept data
 *	                        that is due, at the latest after MAX seconds (0: no limit)
 *
 * DEADLINE is a time of clock_ms().
 */
