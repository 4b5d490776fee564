/*
 * http-get: the bytes of one object, or a range of them, by libcurl: redirects one by one against
 * the rules, and what breaks off is resumed (one request: http-exchange.h).
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
	struct s3_keyring *keyring; /* what S3 is signed with (s3-keys.h) */
	unsigned low_speed_s;	    /* slower than 1 KiB/s for so long counts as broken off */
	/* Called for all received bytes: sleeps if they arrive too fast. NULL: none. */
	void (*pace)(void *arg, size_t bytes);
	void *arg;
};

struct http_request {
	const char *url;    /* http://, https://, or s3://BUCKET/KEY */
	const char *query;  /* of s3, encoded: the bucket itself is asked; NULL: none */
	uint64_t from, to;  /* bytes [from, to); HTTP_END: all from there on */
	bool whole_is_fine; /* an answer with all of it, from its beginning, will do: the bytes
			     * up to `to` are taken, the rest is left */
	bool any_end;	    /* a body whose end nothing marks may be taken: a sum is checked */
	const struct http_validator *known; /* of what was seen before; NULL: nothing */
	uint64_t known_total;		    /* HTTP_END: not known */
	/* data for offset at; 0 or -errno, which ends it. */
	int (*sink)(void *arg, uint64_t at, const void *data, size_t size);
	void *arg;
};

/* Before the first thread. */
int http_global_init(void);

int http_new(struct http **hp, const struct http_config *config, struct error *err);
void http_free(struct http *h);
DEFINE_FREEP(struct http, http_free)

/* 0, or the sentence. -ESTALE: it changed meanwhile; -ENOENT, -EACCES: 404, 403 and their like;
 * -EPERM: the site's rules; -EIO: the server or the way to it fails. */
int http_get(struct http *h, const struct http_request *rq, struct http_reply *reply,
	     struct error *err);
