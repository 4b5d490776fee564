/*
 * Declarations that stage-run.c (the steps of a dataset) and stage-talk.c (messages of its worker)
 * share.
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
	bool class_fixed, restarting;
	int slot;

	struct loop_timer limit, stall, mount;
	uint64_t moved_bytes, moved_files; /* where the stall timer was set last */

	bool ending;  /* releasing or undoing */
	bool linking; /* the worker makes the link of onfail=source */
	bool linked;  /* it was tried */
	bool stays;   /* ready said so */
	bool mounted, unmounting;
	bool placed, placing, unplacing; /* placed: from when it was asked for */
	struct async *release;
	struct loop_timer cleanup;

	struct stage_keys keys;

	struct tier_dir tier; /* path NULL: none asked for */
	struct async *tier_async;
};

uint64_t stage_run_get_now(const struct stage_run *run);

/* The source gave something: the stall limit starts anew. */
void stage_run_set_stall(struct stage_run *run);
/* Something is to be mounted: ready has to come within MountTimeout. */
void stage_run_set_mount(struct stage_run *run);
void stage_run_stop_clock(struct stage_run *run);

/* The dataset has failed, unless it is ending already: taking away begins. */
void stage_run_fail(struct stage_run *run, enum stage_event ev, enum stage_exit code,
		    const char *reason);
/* Nothing is left to be done. */
void stage_run_finish(struct stage_run *run, enum stage_event ev, const char *detail);

/* A message of the worker; fits struct worker_events. */
bool stage_talk(void *run, const char *op, const struct kv *kv);
