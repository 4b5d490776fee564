/*
 * fetch-stream: an object of the web as a stream, in the order of its bytes. The object is not
 * stored.
 */
#pragma once

#include "daemon/engines/archive/stream.h"
#include "daemon/worker/web/fetch-ranges.h"

/* Opens the stream. Its bytes count as progress and are added to hash (NULL: none). A struct fetch
 * can have only one stream at a time. Returns 0 or an error with err set. */
int fetch_stream_new(struct stream **sp, struct ctx *ctx, struct fetch *f,
		     const struct fetch_object *object, struct hash *hash, struct error *err);
