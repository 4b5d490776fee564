/*
 * Redirects are followed here and not by libcurl, which would carry headers to other hosts and has
 * no rules. Each try begins at the first address again: what redirects to a signed address of an
 * hour makes a new one then.
 *
 * A body is taken as whole only when its end is marked: by its length, by chunks, by a range. When
 * it breaks off, the rest is asked for by Range and If-Range; a server that answers with all of it
 * has changed the object, or can't give parts: then what is there already is passed over, if the
 * ETag says that it is the same.
 */
#include "daemon/fetch/http-get.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/url.h"
#include "daemon/engines/web/web.h"
#include "daemon/fetch/http-answer.h"
#include "daemon/fetch/s3-keys.h"
#include "daemon/fetch/s3.h"

#define BUFFER_SIZE (512L << 10)
#define CONNECT_TIMEOUT_S 15L
#define LOW_SPEED_BYTES 1024
#define FIRST_WAIT_MS 500u
#define MAX_WAIT_S 60
/* So many bytes more than at the last failure: tries are counted from the beginning */
#define PROGRESS_SIZE (1u << 20)

struct http {
	struct http_config config;
	CURL *curl;
	CURLU *url;
	char error[CURL_ERROR_SIZE];
	const struct keys *keys;     /* of the user, for the address at hand */
	struct http_answer *answer;  /* that is coming */
	const struct web_rule *rule; /* of the address at hand */
	bool address_refused;
	bool too_slow;
	uint64_t slow_since_ms, slow_bytes; /* since then so much has come … */
	uint64_t last_ms;		    /* … and then the last of it */
	char address[64];		    /* that was */
};

int http_global_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) ? -EIO : 0;
}

static void refuse_address(struct http *h, const char *address)
{
	snprintf(h->address, sizeof(h->address), "%s", address);
	h->address_refused = true;
}

/* Here a name has become an address: whatever was looked up before, this is what is connected to.
 */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct http *h = arg;
	char host[INET6_ADDRSTRLEN + 8] = "?";

	/* the proxy is the site's own word */
	if (!*h->config.web->proxy && !web_rule_allows(h->rule, &a->addr)) {
		getnameinfo(&a->addr, a->addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
		refuse_address(h, host);
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* Asked before each request, of a connection that was kept, too: another rule may have made it. */
static int check_kept(void *arg, char *address, char *own, int port, int own_port)
{
	struct http *h = arg;

	if (*h->config.web->proxy || web_rule_allows_text(h->rule, address))
		return CURL_PREREQFUNC_OK;
	refuse_address(h, address);
	return CURL_PREREQFUNC_ABORT;
}
#endif

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	struct http_answer *a = arg;

	a->begun = true;
	if (http_head_add(&a->head, data, size * n) < 0)
		return 0;
	return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct http *h = arg;
	uint64_t before = clock_ms();
	int r;

	if (h->config.pace)
		h->config.pace(h->config.arg, size * n);
	r = http_answer_take(h->answer, data, size * n);
	h->slow_bytes += size * n;
	h->last_ms = clock_ms();
	h->slow_since_ms += h->last_ms - before; /* who waits for us is not slow */
	return r == 0 ? size * n : 0;
}

/* Asked every second at least. What libcurl has for this counts the time that we take ourselves. */
static int on_time(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct http *h = arg;
	uint64_t now = clock_ms(), limit_s = h->config.low_speed_s;

	if (h->slow_since_ms == 0) {
		h->slow_since_ms = h->last_ms = now;
	} else if (now >= h->last_ms + limit_s * 1000) {
		h->too_slow = true;
	} else if (now >= h->slow_since_ms + limit_s * 1000) {
		h->too_slow = h->slow_bytes < limit_s * LOW_SPEED_BYTES;
		h->slow_since_ms = now;
		h->slow_bytes = 0;
	}
	return h->too_slow;
}

static int set_options(struct http *h)
{
	const struct web *web = h->config.web;
	CURL *c = h->curl;
	CURLcode r = CURLE_OK;

#define SET(option, value) r = r ? r : curl_easy_setopt(c, option, value)
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_ERRORBUFFER, h->error);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_PROXY, web->proxy); /* "": none, whatever the environment says */
	SET(CURLOPT_NOPROXY, "");
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (*web->cafile)
		SET(CURLOPT_CAINFO, web->cafile);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_USERAGENT, "stage-data");
	SET(CURLOPT_BUFFERSIZE, BUFFER_SIZE);
	SET(CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	SET(CURLOPT_NOPROGRESS, 0L);
	SET(CURLOPT_XFERINFOFUNCTION, on_time);
	SET(CURLOPT_XFERINFODATA, h);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, h);
#if LIBCURL_VERSION_NUM >= 0x075000
	SET(CURLOPT_PREREQFUNCTION, check_kept);
	SET(CURLOPT_PREREQDATA, h);
#else
	SET(CURLOPT_FORBID_REUSE, web->n_rules > 1 ? 1L : 0L); /* nobody would ask again */
#endif
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, h);
#undef SET
	return r ? -EINVAL : 0;
}

int http_new(struct http **hp, const struct http_config *config, struct error *err)
{
	_cleanup_(http_freep) struct http *h = calloc(1, sizeof(*h));

	if (h) {
		h->config = *config;
		h->curl = curl_easy_init();
		h->url = curl_url();
	}
	if (!h || !h->curl || !h->url)
		return error_set(err, ENOMEM, "out of memory");
	if (set_options(h) < 0)
		return error_set(err, EOPNOTSUPP, "libcurl %s lacks what is needed",
				 curl_version_info(CURLVERSION_NOW)->version);
	*hp = steal_ptr(h);
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->curl);
	curl_url_cleanup(h->url);
	free(h);
}

/* ---- one exchange ---- */

static int add_header(struct curl_slist **list, const char *name, const char *value)
{
	char line[HTTP_HEAD_MAX_URL];
	struct curl_slist *more;
	int n = snprintf(line, sizeof(line), "%s: %s", name, value);

	more = n < 0 || (size_t)n >= sizeof(line) ? NULL : curl_slist_append(*list, line);
	if (!more)
		return -ENOMEM;
	*list = more;
	return 0;
}

/* What is asked for; nothing that identifies anybody. */
static int make_headers(struct curl_slist **list, const struct http_answer *a)
{
	const char *state = http_validator_for_range(&a->reply->validator);
	char range[64];
	int r;

	r = add_header(list, "Accept-Encoding", "identity");
	if (r == 0 && http_answer_range(a, range, sizeof(range))) {
		r = add_header(list, "Range", range);
		if (r == 0 && state)
			r = add_header(list, "If-Range", state);
	}
	return r;
}

static int add_signed(void *arg, const char *name, const char *value)
{
	return add_header(arg, name, value);
}

/* Signed for this address alone, which is where they go: a redirect of S3's is not followed. */
static int add_signature(struct http *h, struct curl_slist **list, const struct http_answer *a,
			 const char *url)
{
	char range[64];

	if (!s3_is_url(a->rq->url) || h->config.web->anonymous)
		return 0;
	return s3_make_headers(h->config.web, h->keys, url,
			       http_answer_range(a, range, sizeof(range)) ? range : NULL,
			       add_signed, list);
}

/* The rule that covers the address. That of S3 was asked when the bucket was. */
static int find_rule(struct http *h, const struct http_answer *a, const char *url,
		     struct error *err)
{
	if (!s3_is_url(a->rq->url))
		return web_check_url(h->config.web, url, &h->rule, err);
	h->rule = &h->config.web->s3;
	return h->config.web->anonymous ? 0 : s3_keyring_get(h->config.keyring, &h->keys, err);
}

/* Who has keys in both places has to know which were not liked. */
static int explain_keys(const struct http *h, const struct http_answer *a, int r, struct error *err)
{
	if (r == -EACCES && s3_is_url(a->rq->url) && !h->config.web->anonymous &&
	    s3_keyring_is_env(h->config.keyring))
		error_prefix(err, "keys of " KEYS_ENV_ACCESS);
	return r;
}

static bool is_certificate(CURLcode r)
{
	return r == CURLE_PEER_FAILED_VERIFICATION || r == CURLE_SSL_CACERT_BADFILE ||
	       r == CURLE_SSL_ISSUER_ERROR || r == CURLE_SSL_CERTPROBLEM;
}

/* Is it worth another try? */
static bool may_pass(CURLcode r)
{
	static const CURLcode codes[] = {
		CURLE_COULDNT_CONNECT,	  CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
		CURLE_OPERATION_TIMEDOUT, CURLE_RECV_ERROR,	      CURLE_SEND_ERROR,
		CURLE_GOT_NOTHING,	  CURLE_PARTIAL_FILE,	      CURLE_SSL_CONNECT_ERROR,
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i] == r)
			return true;
	return false;
}

/* One line of the head is longer than curl takes. */
static bool is_long_line(CURLcode r)
{
	enum { TOO_LARGE = 100 }; /* CURLE_TOO_LARGE, which the headers name from 8.6 on */
	return r == CURLE_OUT_OF_MEMORY || (int)r == TOO_LARGE;
}

/* Chunks that are none, which libcurl calls a lost connection, in other words in each version. */
static bool is_bad_chunk(const struct http *h, CURLcode r)
{
	return r == CURLE_RECV_ERROR && strcasestr(h->error, "chunk");
}

/* In words, when no answer was whole. *againp: it may pass. */
static int explain_curl(struct http *h, struct http_answer *a, CURLcode r, bool *againp,
			struct error *err)
{
	const char *how = h->error[0] ? h->error : curl_easy_strerror(r);

	if (h->address_refused) {
		error_exit(err, STAGE_EXIT_REFUSED, EPERM,
			   "%s leads to the address %s, which is not public", a->shown, h->address);
		return error_set_hint(err, -EPERM,
				      "the site can allow it by Networks= of its rule");
	}
	if (a->head.size > HTTP_HEAD_MAX_SIZE || is_long_line(r)) {
		error_set(err, EIO, "%s: the server's headers are too long", a->shown);
		return error_set_hint(err, -EIO, "tell who runs the server");
	}
	if (h->too_slow) {
		*againp = true;
		error_set(err, EIO, "%s: next to nothing came for %u s", a->shown,
			  h->config.low_speed_s);
		return error_set_hint(err, -EIO, "try again later");
	}
	if (is_certificate(r)) {
		error_set(err, EIO, "%s: the server's certificate is not accepted (%.300s)",
			  a->shown, how);
		return error_set_hint(err, -EIO, "check the host's name; the site can set CaFile=");
	}
	if (is_bad_chunk(h, r)) {
		error_set(err, EIO, "%s: the server's chunks can't be read (%.300s)", a->shown,
			  how);
		return error_set_hint(err, -EIO, "tell who runs the server");
	}
	*againp = may_pass(r);
	error_set(err, EIO, "%s: %.300s", a->shown, how);
	if (r == CURLE_COULDNT_RESOLVE_HOST)
		how = "check the server's name: getent hosts NAME on this node";
	else
		how = *againp ? "try again later" : "ask the site";
	return error_set_hint(err, -EIO, "%s", how);
}

static int exchange(struct http *h, struct http_answer *a, const char *url, bool *againp,
		    struct error *err)
{
	struct curl_slist *headers = NULL;
	CURLcode c;
	int r;

	*againp = false;
	h->address_refused = h->too_slow = false;
	h->slow_since_ms = h->slow_bytes = 0;
	h->answer = a;
	h->error[0] = '\0';
	r = find_rule(h, a, url, err);
	if (r < 0)
		return r;
	http_answer_begin(a, s3_is_url(a->rq->url) ? a->rq->url : url);
	if (make_headers(&headers, a) < 0 || add_signature(h, &headers, a, url) < 0) {
		curl_slist_free_all(headers);
		return error_set(err, ENOMEM, "out of memory");
	}
	c = curl_easy_setopt(h->curl, CURLOPT_URL, url);
	/* a key is a name, not a path: "a/./b" is another one than "a/b", and signed as it is */
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_PATH_AS_IS, s3_is_url(a->rq->url) ? 1L : 0L);
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_HEADERDATA, a);
	c = c ? c : curl_easy_perform(h->curl);
	curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, (struct curl_slist *)NULL);
	curl_slist_free_all(headers);
	if (a->verdict == HTTP_ANSWER_FATAL) {
		*err = *a->err;
		return err->code;
	}
	if (a->verdict == HTTP_ANSWER_ENOUGH)
		return 0;
	if (c != CURLE_OK && (a->verdict != HTTP_ANSWER_OTHER || a->head.status < 300))
		return explain_curl(h, a, c, againp, err);
	return explain_keys(h, a, http_answer_finish(a, againp, err), err);
}

/* ---- redirects ---- */

static int refuse_redirect(const struct http_answer *a, const char *why, struct error *err)
{
	return error_exit(err, STAGE_EXIT_REFUSED, EPERM, "%s redirects %s", a->shown, why);
}

/* *nextp: where the answer at `url` leads. What the rules say of it is asked by exchange(). */
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

/* The address, and what it leads to. */
static int follow(struct http *h, struct http_answer *a, bool *againp, struct error *err)
{
	_cleanup_(freep) char *url = NULL;
	char *next = NULL, first[sizeof(a->shown)], address[S3_MAX_URL];
	int r = 0;

	if (s3_is_url(a->rq->url))
		r = s3_get_address(h->config.web, a->rq->url, a->rq->query, address,
				   sizeof(address), err);
	if (r < 0)
		return r;
	url = strdup(s3_is_url(a->rq->url) ? address : a->rq->url);
	if (!url)
		return error_set(err, ENOMEM, "out of memory");
	web_show(url, first, sizeof(first));
	for (int hops = 0;; hops++) {
		r = exchange(h, a, url, againp, err);
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

static uint64_t random_below(uint64_t n)
{
	uint64_t v = 0;

	return getrandom(&v, sizeof(v), GRND_NONBLOCK) == sizeof(v) ? v % n : n / 2;
}

static void wait_ms(uint64_t ms)
{
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* How long the server wants to be left alone; 0: it does not say so in a way that can be read. */
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

/* False: it is asked to wait for longer than is sensible. */
static bool wait_before(const struct http_answer *a, int n_failed, struct error *err)
{
	uint64_t ms = FIRST_WAIT_MS << (n_failed - 1), s = get_retry_after_s(a);

	if (s > MAX_WAIT_S) {
		error_set(err, EIO, "%s: the server answers %d and asks to come back in %llu s",
			  a->shown, a->head.status, (unsigned long long)s);
		error_set_hint(err, -EIO, "try again then");
		return false;
	}
	ms = ms / 2 + random_below(ms + 1); /* not all nodes at once */
	if (s * 1000 > ms)
		ms = s * 1000 + random_below(500);
	wait_ms(ms);
	return true;
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
		if (r == 0 && !http_answer_is_done(&a))
			continue; /* less than asked for, but whole: the rest */
		if (r == 0 || !again)
			return r;
		if (a.at >= reached + PROGRESS_SIZE)
			n_failed = 0;
		reached = a.at;
		if (++n_failed == HTTP_MAX_TRIES) {
			error_prefix(err, "after %d tries", n_failed);
			return r;
		}
		if (http_answer_is_unsure(&a)) {
			error_prefix(err,
				     "the server gives neither ETag nor date, so that the rest "
				     "can't be fetched alone");
			return r;
		}
		if (!wait_before(&a, n_failed, err))
			return -EIO;
	}
}
