/*
 * s3-pages: all that is below a prefix, page after page.
 */
#pragma once

struct error;
struct http;

/* url: s3://BUCKET/PREFIX. Writes a line for each object into fd: size, blank, ETag ("-": none), blank,
 * encoded key. */
int s3_list(struct http *h, const char *url, int fd, struct error *err);
