/*
 * manifest-cleanup: removes what manifests list, in a separate process (daemon/stagingd/async.h).
 */
#pragma once

#include <stdint.h>

struct async;
struct error;
struct loop;

/* Releases the manifest file at path in a child process. done: as for async_start(). */
int manifest_cleanup_start(struct async **cp, struct loop *loop, const char *path,
			   uint64_t timeout_ms,
			   void (*done)(void *arg, int r, const struct error *err), void *arg);

/* Releases all manifests of the run directory. Blocks, so it is for a child process, or before the
 * loop runs. Returns 0 or an error with err set. */
int manifest_cleanup_release_all(const char *rundir, struct error *err);

/* Cleans up after a run without a keeper: releases all manifests, then removes the files of
 * stagingd in rundir, and rundir itself if it is empty. The process that started stagingd may have
 * files there, and removes them and rundir later. Blocks. Continues after an error, and returns the
 * first one. */
int manifest_cleanup_empty_rundir(const char *rundir, struct error *err);
