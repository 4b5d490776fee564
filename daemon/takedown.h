/*
 * takedown: taking away what a manifest says, in a process of its own (daemon/chore.h).
 */
#pragma once

#include <stdint.h>

struct chore;
struct error;
struct loop;

/* Releases the manifest file at path. done as for chore_start(). */
int takedown_start(struct chore **cp, struct loop *loop, const char *path, uint64_t timeout_ms,
		   void (*done)(void *arg, int r, const struct error *err), void *arg);

/* All manifests below <rundir>/t/.stage, those of datasets first. Blocks: for a chore, or before
 * the loop runs. Keeps the first error and goes on. */
int takedown_release_all(const char *rundir, struct error *err);

/* The same, then the whole of rundir. Blocks. rundir: absolute, of a run without keeper. */
int takedown_remove_rundir(const char *rundir, struct error *err);
