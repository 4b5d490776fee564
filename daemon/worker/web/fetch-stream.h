/*
 * fetch-stream: an object of the web as a stream, in the order of its bytes. The object is not
 * stored.
 */
#pragma once

#include "daemon/engines/archive/stream.h"
#include "daemon/worker/web/fetch-files.h"

/* Counts as progress and goes into hash (NULL: none). One at a time of a fetch. */
int fetch_stream_new(struct stream **sp, struct ctx *ctx, struct fetch *f,
		     const struct fetch_object *object, struct hash *hash, struct error *err);
