/*
 * hand: has stage-hand do what root need not do (common/keeper-hand.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/keeper-hand.h"
#include "daemon/keeper/launch.h"

#define HAND_MAX_ARGS 10

struct hand {
	const char *argv[HAND_MAX_ARGS]; /* from "stage-hand" on, NULL at the end */
	uid_t uid;
	gid_t gid;
	int dir;                         /* becomes its fd 4; -1: none */
	int nice;
	int stop_fd; /* when it can be read, the answer is -ECANCELED; 0: none */
	uint64_t deadline_ms;
};

/* Copies its answer, which begins with an int32_t, and returns that. -ETIMEDOUT: it hangs and is left
 * behind; -EINTR: it was killed, or stopped; where it can't be started why, at worst -ENOEXEC, never -ENOENT. */
int hand_ask(const struct hand *h, void *answer, size_t size);

/* The same for what answers with a number alone. One that is killed or stopped is begun again: its user may
 * do that, and his processes elsewhere don't keep what the job had by it. */
int hand_do(const struct hand *h);

/* What the configuration says (conf: of its file, NULL for the usual one). 0, or -errno: then
 * site->text says why, if it is not "". */
int hand_get_site(const char *conf, struct hand_site *site);

/* Where the path of a tier ("3") or HAND_NAMESPACE leads for the job; a job_id of 0: for any. node
 * NULL: the host's name. */
struct hand_job {
	uint32_t job_id;
	uid_t uid;
	gid_t gid;
	const char *node;
};
int hand_find_path(const char *conf, const char *which, const struct hand_job *job,
		   struct hand_path *path);

/* Fills in what the account of u->uid and u->gid gives, once for as long as we live. known: there
 * is one. -ECANCELED: the keeper is told to end. */
int hand_get_account(struct launch_user *u, bool *knownp);

/* What it is run as and from, for one that is started otherwise. -errno. */
int hand_prepare(const struct hand *h, struct launch *l, struct launch_user *u);
