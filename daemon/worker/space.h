/*
 * space: what is free for a dataset, in memory and on disk, and which limit decides it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ctx;
struct plan_input;
struct plan_space;

/* Fills in->spaces. For memory, the limits are the tmpfs, the job's limit, the site's share and
 * what the node must keep free. Other tiers are only present or not; their directory is requested
 * when they are chosen. */
void space_measure(struct ctx *ctx, struct plan_input *in);

/* Returns whether the node can spare less than `bytes` of memory. */
bool space_lacks_memory(const struct ctx *ctx, uint64_t bytes);

/* Measures a tier whose directory is open. If the file system gives no numbers, the space stays
 * unknown. */
void space_measure_dir(int dirfd, struct plan_space *space);
