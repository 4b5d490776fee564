/*
 * web-set: several addresses as one source: shards whose names differ by a number. Their sizes are
 * requested, many at the same time. For a pattern of S3, the listing has the sizes.
 */
#pragma once

struct ctx;
struct error;
struct source;

/* schemes/http.c: what every source has that is fetched; shown: its name for people. */
int web_begin(struct ctx *ctx, struct source *src, const char *shown, struct error *err);
/* Then the dataset's address as one file. */
int web_open_one(struct ctx *ctx, struct source *src, struct error *err);

/* The dataset's address with braces; of S3 with "*", too. */
int web_set_open(struct ctx *ctx, struct source *src, struct error *err);
