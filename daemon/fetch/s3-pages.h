/*
 * s3-pages: lists all objects below a prefix, or those that match a pattern, page by page.
 */
#pragma once

#include <stdbool.h>

struct error;
struct http;

/* url: s3://BUCKET/PREFIX, or with is_pattern s3://BUCKET/PATTERN (s3-match.h). Writes a line for
 * each object into fd: size, blank, ETag ("-": none), blank, encoded key. */
int s3_list(struct http *h, const char *url, bool is_pattern, int fd, struct error *err);
