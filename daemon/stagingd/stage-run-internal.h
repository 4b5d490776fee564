/*
 * Declarations that stage-run.c (the steps of a dataset) and worker-messages.c (messages of its
 * worker) share.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/protocol/keeper-verbs.h"
#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "daemon/stagingd/job-keys.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/tier-dir.h"

struct stage_run {
	struct job *job;
	struct stage *stage;
	struct worker_proc *worker;
	enum keeper_class class;
	bool class_fixed;
	const char *restarting; /* why the worker is started again when it has ended; NULL: it is
				 * not */
	int slot;

	struct loop_timer limit, stall, mount;
	uint64_t moved_bytes, moved_files; /* progress at the time when the stall timer was last
					    * set */

	bool ending;  /* the dataset is being released or undone */
	bool linking; /* the worker makes the link of onfail=source */
	bool linked;  /* that link was tried before */
	bool stays;   /* the worker keeps running after `ready` (it said so in that message) */
	bool mounted, unmounting;
	bool placed, placing, unplacing; /* placed: true as soon as the place is requested */
	struct async *release;
	struct loop_timer cleanup;

	struct stage_keys keys;

	struct tier_dir tier; /* path NULL: the worker has no open request for a directory */
	struct async *tier_async;
};

uint64_t stage_run_get_now(const struct stage_run *run);

/* Restarts the stall timer, because the source has sent data. */
void stage_run_set_stall(struct stage_run *run);
/* Starts the timer of a mount: the dataset must be ready within MountTimeout. */
void stage_run_set_mount(struct stage_run *run);
void stage_run_stop_clock(struct stage_run *run);

/* Sets the failure and begins the clean-up, unless the dataset is already ending. */
void stage_run_fail(struct stage_run *run, enum stage_event ev, enum stage_exit code,
		    const char *reason);
/* Ends the clean-up with the event ev and reports it to the job. */
void stage_run_finish(struct stage_run *run, enum stage_event ev, const char *detail);

/* Handles a message of the worker; can be used in struct worker_events. Returns false if the
 * message is not allowed; then the worker is killed. */
bool stage_run_on_message(void *run, const char *op, const struct kv *kv);
