/*
 * s3-objects: the worker's side of a listing: the objects below a prefix, or those that a pattern
 * fits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ctx;
struct error;
struct fetch_object;
struct source;

/* Lists s3://BUCKET/PREFIX, or with is_pattern s3://BUCKET/PATTERN (s3-match.h). Appends the
 * objects, ordered by key, to the *np that are in *objectsp. The name of each object is its
 * complete key. After an error, the objects that were received stay in the list. */
int s3_objects_find(struct ctx *ctx, struct source *src, const char *url, bool is_pattern,
		    struct fetch_object **objectsp, size_t *np, struct error *err);
