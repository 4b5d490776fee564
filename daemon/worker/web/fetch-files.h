/*
 * fetch-files: fetches objects of the web into files, in several parts at the same time. The number
 * of connections grows as long as that makes the fetch faster.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/worker/web/fetch.h"

struct ctx;
struct hash;

struct fetch_object {
	char *url;
	char *name;    /* in a set: beneath its directory */
	uint64_t size; /* HTTP_END: the server does not say */
	bool ranges;   /* parts of it are to be had, and told to be of the same */
	struct http_validator validator;
};

void fetch_objects_free(struct fetch_object *objects, size_t n);

struct fetch_sink {
	/* A file of the object's size for it, open for writing; taken back when it is whole, or
	 * when fetching ends before. */
	int (*open)(void *arg, size_t i, int *fdp, struct error *err);
	int (*close)(void *arg, size_t i, int fd, struct error *err);
	void *arg;
};

/* All of them; sizes have to be known. Progress is counted. hash: of the one object there is (NULL:
 * none); its file is read for it. */
int fetch_files(struct ctx *ctx, struct fetch *f, const struct fetch_object *objects, size_t n,
		const struct fetch_sink *sink, struct hash *hash, struct error *err);

/* One of any size into fd, which gets its size; charged. */
int fetch_file(struct ctx *ctx, struct fetch *f, const struct fetch_object *object, int fd,
	       struct hash *hash, struct error *err);
