/*
 * probe: examines a source: its format, its size, and the space that it needs. It reads headers,
 * sizes and the names of a tree, within the bounds of copy-count.h.
 */
#pragma once

struct ctx;
struct error;
struct facts;
struct source;

/* src->fd of a file is at its beginning afterwards. */
int probe_source(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);
