/*
 * fetch-ranges: fetches objects of the web into files, in several ranges at the same time. The
 * number of connections grows as long as that makes the fetch faster.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/worker/web/fetch.h"

struct ctx;
struct hash;

struct fetch_object {
	char *url;
	char *name;    /* in a set: the path below its directory */
	uint64_t size; /* HTTP_END: the server does not state it */
	bool ranges;   /* the server supports ranges, and a validator shows that they belong to
			* the same version */
	struct http_validator validator;
};

void fetch_objects_free(struct fetch_object *objects, size_t n);

struct fetch_sink {
	/* open() returns a file of the object's size, open for writing. close() is called when it
	 * is complete, or when fetching ends early. */
	int (*open)(void *arg, size_t i, int *fdp, struct error *err);
	int (*close)(void *arg, size_t i, int fd, struct error *err);
	void *arg;
};

/* Fetches all objects; their sizes must be known. Progress is counted. hash: for a single object
 * (NULL: none); the file is read for it. Returns 0 or an error with err set. */
int fetch_ranges_all(struct ctx *ctx, struct fetch *f, const struct fetch_object *objects, size_t n,
		     const struct fetch_sink *sink, struct hash *hash, struct error *err);

/* Fetches one object of any size to fd, which gets its size. The bytes are charged. Returns 0 or an
 * error with err set. */
int fetch_ranges_one(struct ctx *ctx, struct fetch *f, const struct fetch_object *object, int fd,
		     struct hash *hash, struct error *err);
