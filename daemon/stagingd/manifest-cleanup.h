/*
 * manifest-cleanup: removes what manifests list, in a separate process (daemon/stagingd/async.h).
 */
#pragma once

#include <stdint.h>

struct async;
struct error;
struct loop;

/* Releases the manifest file at path. done as for async_start(). */
int manifest_cleanup_start(struct async **cp, struct loop *loop, const char *path,
			   uint64_t timeout_ms,
			   void (*done)(void *arg, int r, const struct error *err), void *arg);

/* All manifests of the run directory. Blocks: for a task, or before the loop runs. */
int manifest_cleanup_release_all(const char *rundir, struct error *err);

/*
 * The end of a run without keeper: all manifests, then what stagingd has in rundir, and rundir
 * itself when nothing of anybody else's is in it (whoever started us may have files there, and
 * removes it then). Blocks. Keeps the first error and goes on.
 */
int manifest_cleanup_empty_rundir(const char *rundir, struct error *err);
