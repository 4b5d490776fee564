/*
 * http-answer: decides whether an answer of a server fits the request, and which bytes of the
 * object it contains. Pure: the lines and the bytes are brought by http-get.c.
 */
#pragma once

#include "common/util/error.h"
#include "daemon/fetch/http-get.h"

enum http_verdict {
	HTTP_ANSWER_OPEN,   /* not told yet */
	HTTP_ANSWER_BODY,   /* what comes goes into the sink */
	HTTP_ANSWER_OTHER,  /* a redirect, or what servers write beside a status */
	HTTP_ANSWER_ENOUGH, /* all that was wanted is there: the rest is left */
	HTTP_ANSWER_FATAL,  /* err says why */
};

#define HTTP_ANSWER_REDIRECT 1 /* of http_answer_finish() */
#define HTTP_ANSWER_TEXT 1024

struct http_answer {
	const struct http_request *rq;
	struct http_reply *reply;
	struct error *err;
	uint64_t at;   /* what goes into the sink next, over all tries */
	bool no_range; /* all of it is asked for: what the server said of a part may mean an empty
			  one */

	/* of the exchange at hand */
	char shown[512]; /* the address, for people */
	const char *url; /* … and as it is */
	bool begun;	 /* a header came */
	struct http_head head;
	enum http_verdict verdict;
	uint64_t skip;		     /* bytes of the body that are there already */
	uint64_t other_size;	     /* of what is no body of ours */
	char text[HTTP_ANSWER_TEXT]; /* its beginning */
};

void http_answer_init(struct http_answer *a, const struct http_request *rq,
		      struct http_reply *reply, struct error *err);
/* Before each exchange. */
void http_answer_begin(struct http_answer *a, const char *url);
/* "bytes=5-" for the Range header; false: none is to be sent. */
bool http_answer_range(const struct http_answer *a, char *buf, size_t size);
/* Bytes of the body. 0; -1: no more of them, verdict says why. */
int http_answer_take(struct http_answer *a, const void *data, size_t size);
/* The exchange ended as it should: HTTP_ANSWER_REDIRECT, 0, or the sentence (*againp: may pass). */
int http_answer_finish(struct http_answer *a, bool *againp, struct error *err);
/* Is all there? */
bool http_answer_is_done(const struct http_answer *a);
/* Has some of it come, and will nothing tell whether the rest is still of the same? */
bool http_answer_is_unsure(const struct http_answer *a);
