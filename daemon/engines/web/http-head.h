/*
 * http-head: parses the header lines of an answer. Pure: the caller provides them, one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HTTP_HEAD_MAX_SIZE (64 * 1024) /* limit for all lines of an answer */
#define HTTP_HEAD_MAX_URL 4096
#define HTTP_NAME_SIZE 256
#define HTTP_END UINT64_MAX /* size: not known; range: to the end */

/* Identifies one state of an object. */
struct http_validator {
	char etag[256];	   /* with its quotes, and with W/ if it is weak; "": none */
	char modified[64]; /* text of Last-Modified; "": none */
};

/* Facts about an object, after all or some of its bytes were received. */
struct http_reply {
	uint64_t total; /* size of the object; HTTP_END: not known */
	bool ranges;	/* the server supports ranges */
	struct http_validator validator;
	char name[HTTP_NAME_SIZE]; /* from Content-Disposition, or from the final address */
	uint64_t bytes;		   /* bytes received */
};

struct http_head {
	int status;
	char reason[64];
	uint64_t length;
	unsigned n_lengths; /* number of Content-Length lines */
	bool length_bad;    /* one of them is not a number */
	bool chunked;
	bool has_range, range_bad;	/* Content-Range */
	uint64_t range_from, range_end; /* range_end: offset after the last byte; both are 0 for
					 * "*" */
	uint64_t range_total;		/* UINT64_MAX for "*" */
	struct http_validator validator;
	char location[HTTP_HEAD_MAX_URL];
	bool location_bad; /* the address was too long */
	char retry_after[64];
	char encoding[64];
	char name[HTTP_NAME_SIZE]; /* from Content-Disposition; "": none */
	size_t size;		   /* size of all lines so far */
};

/* Parses the next line, with or without its line end. A status line begins a new answer. Returns 0,
 * or -E2BIG: all lines have more than HTTP_HEAD_MAX_SIZE bytes. */
int http_head_add(struct http_head *h, const char *line, size_t size);

/* Returns true if both can belong to the same bytes, by the fields that both have. */
bool http_validator_is_same(const struct http_validator *a, const struct http_validator *b);
/* Returns the value for If-Range: a strong ETag, or else the date. NULL if there is neither, or if
 * it contains control bytes. */
const char *http_validator_for_range(const struct http_validator *v);
/* Returns true if the answer has no Content-Encoding that must be decoded. A name such as x.tar.gz
 * may have one, because the content is compressed in any case. */
bool http_head_may_be_encoded(const struct http_head *h, const char *url);

/* Parses a date such as "Sat, 21 Nov 2026 08:00:00 GMT". Returns 0 if text is no date. */
time_t http_date_read(const char *text);
