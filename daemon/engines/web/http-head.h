/*
 * http-head: parses the header lines of an answer. Pure: the caller provides them, one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX_SIZE (64 * 1024) /* of all lines of an answer */
#define HTTP_HEAD_MAX_URL 4096
#define HTTP_NAME_SIZE 256
#define HTTP_END UINT64_MAX /* of a size: not known; of a range: all from there on */

/* Identifies one state of an object. */
struct http_validator {
	char etag[256];	   /* with its quotes, and W/ where it is weak; "": none */
	char modified[64]; /* Last-Modified, as text; "": none */
};

/* What was learned of an object when its bytes, or some of them, had come. */
struct http_reply {
	uint64_t total; /* of the object; HTTP_END: not known */
	bool ranges;	/* the server gives parts */
	struct http_validator validator;
	char name[HTTP_NAME_SIZE]; /* as Content-Disposition or the address that answered calls it
				    */
	uint64_t bytes;		   /* that came */
};

struct http_head {
	int status;
	char reason[64];
	uint64_t length;
	unsigned n_lengths; /* lines of Content-Length */
	bool length_bad;    /* one of them is no number */
	bool chunked;
	bool has_range, range_bad;	/* Content-Range */
	uint64_t range_from, range_end; /* end: behind the last byte; both 0 for "*" */
	uint64_t range_total;		/* UINT64_MAX: "*" */
	struct http_validator validator;
	char location[HTTP_HEAD_MAX_URL];
	bool location_bad; /* too long */
	char retry_after[64];
	char encoding[64];
	char name[HTTP_NAME_SIZE]; /* of Content-Disposition; "": none */
	size_t size;		   /* of all lines so far */
};

/* The next line, without regard to its end; a line of status begins anew. 0, -E2BIG: more than
 * HTTP_HEAD_MAX_SIZE in all. */
int http_head_add(struct http_head *h, const char *line, size_t size);

/* Do both speak of the same bytes, as far as they say? */
bool http_validator_is_same(const struct http_validator *a, const struct http_validator *b);
/* For If-Range: a strong ETag, else the date; NULL where there is neither, or control bytes are in
 * them. */
const char *http_validator_for_range(const struct http_validator *v);
/* The type of content: is it a name whose bytes are compressed anyway (x.tar.gz)? */
bool http_head_may_be_encoded(const struct http_head *h, const char *url);
