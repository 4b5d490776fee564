/*
 * probe: looks at a source: what it is, how much, how much it takes. Reads headers, sizes and the
 * names of a tree; for a tree at most PROBE_MAX_FILES and for PROBE_MAX_MS.
 */
#pragma once

struct ctx;
struct error;
struct facts;
struct source;

#define PROBE_MAX_FILES 50000000ULL
#define PROBE_MAX_MS 120000

/* src->fd of a file is at its beginning afterwards. */
int probe_source(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);
