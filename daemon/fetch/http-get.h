/*
 * http-get: fetches the bytes of one object, or a range of them. It follows redirects one by one
 * and checks each against the rules. It resumes a transfer that was interrupted. http-exchange.h
 * makes one request.
 *
 * A struct http belongs to one thread and keeps its connections for the next object.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "daemon/engines/web/http-head.h"

struct error;
struct http;
struct s3_keyring;
struct web;

#define HTTP_MAX_REDIRECTS 5
#define HTTP_MAX_TRIES 5

struct http_config {
	const struct web *web;
	struct s3_keyring *keyring; /* the keys that sign S3 requests (s3-keys.h) */
	unsigned low_speed_s;	    /* a transfer below 1 KiB/s for this many seconds counts as
				     * broken off */
	/* Called after bytes are received; sleeps if they arrive too fast. NULL: no limit. */
	void (*pace)(void *arg, size_t bytes);
	void *arg;
};

struct http_request {
	const char *url;    /* http://, https://, or s3://BUCKET/KEY */
	const char *query;  /* encoded query for S3, which addresses the bucket itself; NULL:
			     * none */
	uint64_t from, to;  /* bytes [from, to); HTTP_END: up to the end of the object */
	bool whole_is_fine; /* an answer with the whole object is accepted: its bytes up to `to`
			     * are used, the rest is not read */
	bool any_end;	    /* accept a body without a marked end, because a checksum is verified
			     * later */
	const struct http_validator *known; /* validator seen before; NULL: none */
	uint64_t known_total;		    /* HTTP_END: not known */
	/* Receives data for offset at. Returns 0, or -errno, which ends the request. */
	int (*sink)(void *arg, uint64_t at, const void *data, size_t size);
	void *arg;
};

/* Call it before the first thread starts. */
int http_global_init(void);

int http_new(struct http **hp, const struct http_config *config, struct error *err);
void http_free(struct http *h);
DEFINE_FREEP(struct http, http_free)

/* Returns 0 or an error with err set. -ESTALE: the object changed while it was fetched; -ENOENT:
 * 404 or 410; -EACCES: 401, 403 or 407; -EPERM: the site's rules forbid it; -EIO: the server or the
 * network failed. */
int http_get(struct http *h, const struct http_request *rq, struct http_reply *reply,
	     struct error *err);
