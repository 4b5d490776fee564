/*
 * stage-run: moves one dataset through its states. It starts the worker, answers its requests,
 * watches the deadlines, and at the end removes what is left, in the order server, place, mount,
 * manifest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct job;
struct stage;
struct stage_run;
struct worker_proc;

/* Takes the stage over when it returns 0. */
int stage_run_new(struct stage_run **runp, struct job *job, struct stage *stage);
/* Lets go of workers and asynchronous calls without waiting for them. */
void stage_run_free(struct stage_run *run);
DEFINE_FREEP(struct stage_run, stage_run_free)

struct stage *stage_run_get_stage(const struct stage_run *run);
struct worker_proc *stage_run_get_worker(const struct stage_run *run);
int stage_run_get_slot(const struct stage_run *run);

/* Its worker may put data into the job's memory, whose limit must be known by then. */
bool stage_run_wants_memory(const struct stage_run *run);
/* It takes one of the places for those that move data. */
bool stage_run_is_writer(const struct stage_run *run);
/* Its worker serves a mount, or will, with or without a copy that is made behind it. */
bool stage_run_serves(const struct stage_run *run);
/* Its worker takes one of the places for those that mount. */
bool stage_run_is_server(const struct stage_run *run);
/* A worker is on its way to ready, or something is being taken away. */
bool stage_run_is_busy(const struct stage_run *run);

void stage_run_start(struct stage_run *run);

/* It is queued, and fails there. */
void stage_run_refuse(struct stage_run *run, int errnum, const char *reason);

/* Release: whatever its state. reason: for those who wait for it. */
void stage_run_cancel(struct stage_run *run, int code, const char *reason);

/* From the launcher's events. */
void stage_run_on_mounted(struct stage_run *run, int r, const int *fds, size_t n_fds);
void stage_run_on_unmounted(struct stage_run *run, int r);
void stage_run_on_placed(struct stage_run *run, int r);
void stage_run_on_unplaced(struct stage_run *run, int r);
void stage_run_on_tier(struct stage_run *run, uint32_t index, int r);
