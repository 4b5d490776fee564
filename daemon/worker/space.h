/*
 * space: what is free for a dataset, in memory and on disk, and which limit decides it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ctx;
struct plan_input;
struct plan_space;

/* Fills in->spaces: memory by the tmpfs, the job's limit, the site's share and what the node must
 * keep; the other tiers as present or not (their directory is asked for when they are chosen). */
void space_measure(struct ctx *ctx, struct plan_input *in);

/* Has the node less than bytes of memory to spare? */
bool space_lacks_memory(const struct ctx *ctx, uint64_t bytes);

/* A tier whose directory is open. Not known if the file system can't say. */
void space_measure_dir(int dirfd, struct plan_space *space);
