/*
 * s3-pages: all that is below a prefix, or fits a pattern, page after page.
 */
#pragma once

#include <stdbool.h>

struct error;
struct http;

/* url: s3://BUCKET/PREFIX, or with is_pattern s3://BUCKET/PATTERN (s3-match.h). Writes a line for
 * each object into fd: size, blank, ETag ("-": none), blank, encoded key. */
int s3_list(struct http *h, const char *url, bool is_pattern, int fd, struct error *err);
