/*
 * probe: examines a source: its format, its size, and the space that it needs. It reads headers,
 * sizes and the names of a tree, within the bounds of copy-count.h.
 */
#pragma once

struct ctx;
struct error;
struct facts;
struct source;

/* Fills in the facts. Returns 0 or an error with err set. The offset of a file's src->fd is 0
 * afterwards. */
int probe_source(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);
