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

/* Takes over the stage if it returns 0. Returns 0 or -errno. */
int stage_run_new(struct stage_run **runp, struct job *job, struct stage *stage);
/* Frees the run. Does not wait for its worker or its asynchronous calls. */
void stage_run_free(struct stage_run *run);
DEFINE_FREEP(struct stage_run, stage_run_free)

struct stage *stage_run_get_stage(const struct stage_run *run);
struct worker_proc *stage_run_get_worker(const struct stage_run *run);
int stage_run_get_slot(const struct stage_run *run);

/* Returns whether the worker may write to the job's memory, whose limit must be known before. */
bool stage_run_wants_memory(const struct stage_run *run);
/* Returns whether the worker writes data, and so needs one of the writers' places. */
bool stage_run_is_writer(const struct stage_run *run);
/* Returns whether the worker serves a mount, or will do so, even if it also copies the image
 * (hydrate). */
bool stage_run_serves(const struct stage_run *run);
/* Returns whether the worker only mounts, and so needs one of the mounts' places. */
bool stage_run_is_server(const struct stage_run *run);
/* Returns whether a worker runs for a dataset that is not ready, or a clean-up is in progress. */
bool stage_run_is_busy(const struct stage_run *run);

void stage_run_start(struct stage_run *run);

/* Fails a queued dataset. */
void stage_run_refuse(struct stage_run *run, int errnum, const char *reason);

/* Releases the dataset in any state. reason: for clients that wait for it. */
void stage_run_cancel(struct stage_run *run, int code, const char *reason);

/* Called for events of the launcher. */
void stage_run_on_mounted(struct stage_run *run, int r, const int *fds, size_t n_fds);
void stage_run_on_unmounted(struct stage_run *run, int r);
void stage_run_on_placed(struct stage_run *run, int r);
void stage_run_on_unplaced(struct stage_run *run, int r);
void stage_run_on_tier(struct stage_run *run, uint32_t index, int r);
