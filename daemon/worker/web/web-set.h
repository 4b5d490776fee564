/*
 * web-set: several addresses as one source: shards whose names differ by a number. Their sizes are
 * requested, many at the same time. For a pattern of S3, the listing has the sizes.
 */
#pragma once

struct ctx;
struct error;
struct source;

/* Sets the fields that all fetched sources have. shown: name for messages. In schemes/http.c. */
int web_begin(struct ctx *ctx, struct source *src, const char *shown, struct error *err);
/* Opens the dataset's address as one file. Called after web_begin(). */
int web_open_one(struct ctx *ctx, struct source *src, struct error *err);

/* Opens the dataset's address with braces, or for S3 also with "*". Called after web_begin(). */
int web_set_open(struct ctx *ctx, struct source *src, struct error *err);
