/*
 * s3-pages: lists all objects below a prefix, or those that match a pattern, page by page.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct http;

/* Lists s3://BUCKET/PREFIX, or with is_pattern s3://BUCKET/PATTERN (s3-match.h). Writes one line
 * for each object to fd: size, blank, ETag ("-": none), blank, encoded key. Calls came() with each
 * number of bytes that the server has sent. Returns 0 or an error with err set. */
int s3_list(struct http *h, const char *url, bool is_pattern, int fd,
	    void (*came)(void *arg, size_t size), void *arg, struct error *err);
