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
#define S3_KEY_SIZE 1025 /* 1,024 bytes and a NUL */

struct s3_object {
	char key[S3_KEY_SIZE]; /* the decoded key */
	uint64_t size;
	char etag[256]; /* with its quotes */
};

struct s3_page {
	bool truncated;
	bool encoded;	  /* the page says that its keys are encoded */
	char token[2048]; /* for the next page, decoded */
};

/* Calls take for each object, in order, until it returns a value other than 0. -EBADMSG: this is
 * not such a page. */
int s3_list_read(const char *data, size_t size, struct s3_page *page,
		 int (*take)(void *arg, const struct s3_object *o, struct error *err), void *arg,
		 struct error *err);

/* Copies the text of the first element with this name to buf, such as "Message" of an error.
 * Returns false if there is none. */
bool s3_xml_get(const char *data, size_t size, const char *name, char *buf, size_t buf_size);

/* Decodes "%2F" to "/" and "+" to " " in place. Returns false for a NUL, or for characters that are
 * not hex digits. */
bool s3_url_decode(char *text);
