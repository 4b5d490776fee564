/*
 * http-answer: decides whether an answer of a server fits the request, and which bytes of the
 * object it contains. It is pure: http-get.c passes the lines and the bytes to it.
 */
#pragma once

#include "common/util/error.h"
#include "daemon/fetch/http-get.h"

enum http_verdict {
	HTTP_ANSWER_OPEN,   /* not decided yet: the headers are not complete */
	HTTP_ANSWER_BODY,   /* the body is the object's data and goes into the sink */
	HTTP_ANSWER_OTHER,  /* the body is not the object's: a redirect or an error page */
	HTTP_ANSWER_ENOUGH, /* all wanted bytes are received; the rest is not read */
	HTTP_ANSWER_FATAL,  /* the request has failed; err has the reason */
};

#define HTTP_ANSWER_REDIRECT 1 /* returned by http_answer_finish() */
#define HTTP_ANSWER_TEXT 1024

struct http_answer {
	const struct http_request *rq;
	struct http_reply *reply;
	struct error *err;
	uint64_t at;   /* offset of the next byte for the sink, over all tries */
	bool no_range; /* send no Range header: the server answered 416 to one, perhaps because
			* the object is empty */

	/* the current exchange */
	char shown[512]; /* the address, as it is shown to people */
	const char *url; /* the real address */
	bool begun;	 /* a header was received */
	struct http_head head;
	enum http_verdict verdict;
	uint64_t skip;		     /* bytes of the body that an earlier answer already gave */
	uint64_t other_size;	     /* bytes received of a body that is not the object's */
	char text[HTTP_ANSWER_TEXT]; /* first part of that body */
};

void http_answer_init(struct http_answer *a, const struct http_request *rq,
		      struct http_reply *reply, struct error *err);
/* Resets a before each exchange. */
void http_answer_begin(struct http_answer *a, const char *url);
/* Writes the value of the Range header, such as "bytes=5-", to buf. False: send no Range header. */
bool http_answer_range(const struct http_answer *a, char *buf, size_t size);
/* Takes bytes of the body. Returns 0, or -1: stop the transfer; a->verdict has the reason. */
int http_answer_take(struct http_answer *a, const void *data, size_t size);
/* Judges an exchange that ended normally. Returns 0, HTTP_ANSWER_REDIRECT, or an error with err
 * set; then *againp is true if another try may help. */
int http_answer_finish(struct http_answer *a, bool *againp, struct error *err);
/* Returns whether all requested bytes have been received. */
bool http_answer_is_done(const struct http_answer *a);
/* Returns whether a part was received and the server gave neither a strong ETag nor a date, so that
 * nothing shows whether the rest belongs to the same version. A weak ETag may stay when the bytes
 * change. */
bool http_answer_is_unsure(const struct http_answer *a);
