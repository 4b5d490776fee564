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

/* Of a directory or set. With shard= src->taken are the files of this node. What the walk saw stays
 * with src for the copy, as far as there is room. */
int copy_count(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);
