/*
 * takedown: taking away what manifests say, in a process of its own (daemon/stagingd/chore.h).
 */
#pragma once

#include <stdint.h>

struct chore;
struct error;
struct loop;

/* Releases the manifest file at path. done as for chore_start(). */
int takedown_start(struct chore **cp, struct loop *loop, const char *path, uint64_t timeout_ms,
		   void (*done)(void *arg, int r, const struct error *err), void *arg);

/* All manifests of the run directory. Blocks: for a chore, or before the loop runs. */
int takedown_release_all(const char *rundir, struct error *err);

/*
 * The end of a run without keeper: all manifests, then what stagingd has in rundir, and rundir
 * itself when nothing of anybody else's is in it (whoever started us may have files there, and
 * removes it then). Blocks. Keeps the first error and goes on.
 */
int takedown_empty_rundir(const char *rundir, struct error *err);
