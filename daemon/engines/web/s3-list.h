/*
 * s3-list: a page of ListObjectsV2, asked for with encoding-type=url. Pure. It knows the few
 * elements that such a page has, and refuses everything else that XML allows: declarations of
 * types, entities beyond the five and characters by number, comments, pages larger than
 * S3_LIST_MAX_SIZE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define S3_LIST_MAX_SIZE (16u << 20)
#define S3_KEY_SIZE 1025 /* 1,024 bytes and the NUL */

struct s3_object {
	char key[S3_KEY_SIZE]; /* decoded */
	uint64_t size;
	char etag[256]; /* with its quotes */
};

struct s3_page {
	bool truncated;
	bool encoded;	  /* keys were, as it says */
	char token[2048]; /* for the next page, decoded */
};

/* Calls take for each object, in order; what it returns other than 0 ends it. -EBADMSG: no such
 * page. */
int s3_list_read(const char *data, size_t size, struct s3_page *page,
		 int (*take)(void *arg, const struct s3_object *o, struct error *err), void *arg,
		 struct error *err);

/* The text of the first such element of an answer ("Message" of an error) to buf; false: none. */
bool s3_xml_get(const char *data, size_t size, const char *name, char *buf, size_t buf_size);

/* "%2F" -> "/", "+" -> " ", in place. False: a NUL, or no hex digits. */
bool s3_url_decode(char *text);
