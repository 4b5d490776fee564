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

/* Writes the http(s) address of an s3:// url at the site's endpoint. query: encoded, parameters in
 * byte order; NULL: none. Returns 0 or an error with err set. */
int s3_get_address(const struct web *web, const char *url, const char *query, char *buf,
		   size_t size, struct error *err);

/* Calls add for each header of a signed GET. address: written by s3_get_address(). Returns 0,
 * -errno, or the negative value that add returned. */
int s3_make_headers(const struct web *web, const struct keys *keys, const char *address,
		    const char *range, int (*add)(void *arg, const char *name, const char *value),
		    void *arg);
