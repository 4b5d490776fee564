/*
 * s3: makes a signed request to the site's server from s3://BUCKET/KEY. It is linked into
 * stage-fetch only, so stage-fetch is the only process that uses the user's keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"
#include "daemon/fetch/s3-sign.h"

struct error;
struct web;

#define S3_MAX_URL 8192

/* The address at the endpoint; query: encoded, in order, NULL: none. */
int s3_get_address(const struct web *web, const char *url, const char *query, char *buf,
		   size_t size, struct error *err);

/* Headers for a GET of an address that s3_get_address() gave. add is called for each. */
int s3_make_headers(const struct web *web, const struct keys *keys, const char *address,
		    const char *range, int (*add)(void *arg, const char *name, const char *value),
		    void *arg);
