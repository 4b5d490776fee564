/*
 * web-set: several addresses as one source: shards whose names differ by a number. They are asked
 * for their sizes, many at once; what a pattern of S3 fits is listed with them.
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
