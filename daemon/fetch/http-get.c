/*
 * Redirects are followed here and not by libcurl, because libcurl would send headers to other
 * hosts and does not know the rules. Each try begins at the first address again. If this address
 * redirects to a signed address that is valid for an hour, each try gets a new signed address.
 *
 * A body is complete only if its end is marked: by its length, by chunks, or by a range. If the
 * connection breaks, the rest is requested with Range and If-Range. A server may answer with the
 * whole object instead. Then either the object has changed, or the server cannot send parts. If
 * the ETag shows that the object is the same, the bytes that were already received are skipped.
 */
#include "daemon/fetch/http-get.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "common/util/error.h"
#include "common/util/random.h"
#include "common/util/url.h"
#include "daemon/engines/web/web.h"
#include "daemon/fetch/http-answer.h"
#include "daemon/fetch/http-exchange.h"
#include "daemon/fetch/s3.h"

#define FIRST_WAIT_MS 500u
#define MAX_WAIT_S 60
/* The count of failed tries restarts after this many bytes of progress since the last failure */
#define PROGRESS_SIZE (1u << 20)

struct http {
	struct http_config config;
	struct http_exchange *exchange;
	CURLU *url; /* resolves relative addresses of redirects */
};

int http_global_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) ? -EIO : 0;
}

int http_new(struct http **hp, const struct http_config *config, struct error *err)
{
	_cleanup_(http_freep) struct http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return error_set(err, ENOMEM, "out of memory");
	h->config = *config;
	h->url = curl_url();
	if (!h->url)
		return error_set(err, ENOMEM, "out of memory");
	r = http_exchange_new(&h->exchange, &h->config, err);
	if (r < 0)
		return r;
	*hp = steal_ptr(h);
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	http_exchange_free(h->exchange);
	curl_url_cleanup(h->url);
	free(h);
}

/* ---- redirects ---- */

static int refuse_redirect(const struct http_answer *a, const char *why, struct error *err)
{
	return error_exit(err, STAGE_EXIT_REFUSED, EPERM, "%s redirects %s", a->shown, why);
}

/* *nextp: the address to which the answer at `url` redirects; the caller frees it.
 * http_exchange_run() checks it against the rules. */
static int next_url(struct http *h, const struct http_answer *a, const char *url, char **nextp,
		    struct error *err)
{
	char *text = NULL, *copy;

	if (!a->head.location[0] || a->head.location_bad)
		return refuse_redirect(a, "to an address that can't be read", err);
	if (curl_url_set(h->url, CURLUPART_URL, url, 0) ||
	    curl_url_set(h->url, CURLUPART_URL, a->head.location, CURLU_NON_SUPPORT_SCHEME) ||
	    curl_url_get(h->url, CURLUPART_URL, &text, 0))
		return refuse_redirect(a, "to an address that can't be read", err);
	copy = strdup(text);
	curl_free(text);
	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	*nextp = copy;
	if (url_scheme_of(url) == URL_HTTPS && url_scheme_of(copy) == URL_HTTP)
		return refuse_redirect(a, "from https:// to http://", err);
	return 0;
}

/* Requests the address and follows its redirects. */
static int follow(struct http *h, struct http_answer *a, bool *againp, struct error *err)
{
	_cleanup_(freep) char *url = NULL;
	char *next = NULL, first[sizeof(a->shown)], address[S3_MAX_URL];
	int r = 0;

	if (url_is_s3(a->rq->url))
		r = s3_get_address(h->config.web, a->rq->url, a->rq->query, address,
				   sizeof(address), err);
	if (r < 0)
		return r;
	url = strdup(url_is_s3(a->rq->url) ? address : a->rq->url);
	if (!url)
		return error_set(err, ENOMEM, "out of memory");
	web_show(url, first, sizeof(first));
	for (int hops = 0;; hops++) {
		r = http_exchange_run(h->exchange, a, url, againp, err);
		if (r < 0 && hops > 0)
			error_prefix(err, "%.300s was redirected", first);
		if (r != HTTP_ANSWER_REDIRECT)
			return r;
		if (hops == HTTP_MAX_REDIRECTS) {
			error_set(err, EIO, "%s: more than %d redirects", first,
				  HTTP_MAX_REDIRECTS);
			return error_set_hint(err, -EIO, "name the address where they should end");
		}
		r = next_url(h, a, url, &next, err);
		if (r < 0) {
			free(next);
			return r;
		}
		free(url);
		url = next;
		next = NULL;
	}
}

/* ---- tries ---- */

static void wait_ms(uint64_t ms)
{
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* Returns the seconds of Retry-After, or 0 if the header is missing or malformed. */
static uint64_t get_retry_after_s(const struct http_answer *a)
{
	const char *text = a->head.retry_after;
	time_t now = time(NULL), then;
	char *end;
	unsigned long s;

	if (!a->begun || !*text)
		return 0;
	s = strtoul(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end)
		return s;
	then = curl_getdate(text, NULL);
	return then > now ? (uint64_t)(then - now) : 0;
}

/* Waits before the next try. Returns false if the server asks for a longer wait than MAX_WAIT_S. */
static bool wait_before(const struct http_answer *a, int n_failed, struct error *err)
{
	uint64_t ms = FIRST_WAIT_MS << (n_failed - 1), s = get_retry_after_s(a);

	if (s > MAX_WAIT_S) {
		error_set(err, EIO, "%s: the server answers %d and asks to come back in %llu s",
			  a->shown, a->head.status, (unsigned long long)s);
		error_set_hint(err, -EIO, "try again then");
		return false;
	}
	ms = ms / 2 + random_below(ms + 1); /* so that the nodes do not retry at once */
	if (s * 1000 > ms)
		ms = s * 1000 + random_below(500);
	wait_ms(ms);
	return true;
}

/* Adds to the error why the rest of the object is not requested. */
static int refuse_rest(int r, struct error *err)
{
	error_prefix(err, "the server gives neither a strong ETag nor a date, so that the rest "
			  "can't be fetched alone");
	return r;
}

int http_get(struct http *h, const struct http_request *rq, struct http_reply *reply,
	     struct error *err)
{
	struct error why = ERROR_INIT;
	struct http_answer a;
	uint64_t reached = rq->from;
	int n_failed = 0, r;
	bool again;

	http_answer_init(&a, rq, reply, &why);
	for (;;) {
		again = false;
		why = (struct error)ERROR_INIT;
		r = follow(h, &a, &again, err);
		if (r == 0 && !http_answer_is_done(&a) && !http_answer_is_unsure(&a))
			continue; /* complete but shorter than requested: get the rest */
		if (r == 0 && !http_answer_is_done(&a))
			return refuse_rest(error_set(err, EIO,
						     "%s: the server sent less than was asked for",
						     a.shown),
					   err);
		if (r == 0 || !again)
			return r;
		if (a.at >= reached + PROGRESS_SIZE)
			n_failed = 0;
		reached = a.at;
		if (++n_failed == HTTP_MAX_TRIES) {
			error_prefix(err, "after %d tries", n_failed);
			return r;
		}
		if (http_answer_is_unsure(&a))
			return refuse_rest(r, err);
		if (!wait_before(&a, n_failed, err))
			return -EIO;
	}
}
