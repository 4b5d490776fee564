/*
 * copy-count: counts the files and bytes of a tree or a set, and computes the space that its copy
 * needs. Files that cannot be read are not counted; the copy reports them. In a tree, at most
 * COPY_COUNT_MAX_FILES are counted, for at most COPY_COUNT_MAX_MS.
 */
#pragma once

struct ctx;
struct error;
struct facts;
struct source;

#define COPY_COUNT_MAX_FILES 50000000ULL
#define COPY_COUNT_MAX_MS 120000

/* Counts a directory or a set. With shard=, src->taken gets the files of this node. What the walk
 * saw is stored in src for the copy, up to WALK_KEPT_MAX. */
int copy_count(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);
