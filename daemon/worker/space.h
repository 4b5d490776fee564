/*
 * space: what is free for a dataset, in memory and on disk, and who says so.
 */
#pragma once

struct ctx;
struct plan_input;
struct plan_space;

/* Fills in->spaces: memory by the tmpfs, the job's limit, the site's share and what the node must
 * keep; the other tiers as present or not (their directory is asked for when they are chosen). */
void space_measure(struct ctx *ctx, struct plan_input *in);

/* A tier whose directory is open. Not known if the file system can't say. */
void space_measure_dir(int dirfd, struct plan_space *space);
