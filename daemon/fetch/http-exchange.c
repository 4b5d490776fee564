#include "daemon/fetch/http-exchange.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/url.h"
#include "daemon/engines/web/web.h"
#include "daemon/fetch/http-answer.h"
#include "daemon/fetch/http-get.h"
#include "daemon/fetch/s3-keys.h"
#include "daemon/fetch/s3.h"

#define BUFFER_SIZE (512L << 10)
#define CONNECT_TIMEOUT_S 15L
#define LOW_SPEED_BYTES 1024

struct http_exchange {
	const struct http_config *config;
	CURL *curl;
	char error[CURL_ERROR_SIZE];
	const struct keys *keys;     /* the user's keys for the current address */
	struct http_answer *answer;  /* the answer that is being received */
	const struct web_rule *rule; /* the rule for the current address */
	bool address_refused;
	bool has_socket; /* a socket to an address that is allowed was made */
	bool too_slow;
	uint64_t slow_since_ms, slow_bytes; /* bytes received since slow_since_ms */
	uint64_t last_ms;		    /* time of the last byte */
	char address[64];		    /* the address that was refused */
};

static void refuse_address(struct http_exchange *h, const char *address)
{
	snprintf(h->address, sizeof(h->address), "%s", address);
	h->address_refused = true;
}

/* Checks the address that curl really connects to; earlier lookups do not count. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct http_exchange *h = arg;
	char host[INET6_ADDRSTRLEN + 8] = "?";

	/* the site configured the proxy, so its address needs no check */
	if (!*h->config->web->proxy && !web_rule_allows(h->rule, &a->addr)) {
		getnameinfo(&a->addr, a->addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
		refuse_address(h, host);
		return CURL_SOCKET_BAD;
	}
	h->has_socket = true;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* Also checks reused connections, which may have been opened under another rule. */
static int check_kept(void *arg, char *address, char *own, int port, int own_port)
{
	struct http_exchange *h = arg;

	if (*h->config->web->proxy || web_rule_allows_text(h->rule, address))
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
	struct http_exchange *h = arg;
	uint64_t before = clock_ms();
	int r;

	if (h->config->pace)
		h->config->pace(h->config->arg, size * n);
	r = http_answer_take(h->answer, data, size * n);
	h->slow_bytes += size * n;
	h->last_ms = clock_ms();
	/* our own time in this function does not count as slowness of the server */
	h->slow_since_ms += h->last_ms - before;
	return r == 0 ? size * n : 0;
}

/* Called at least once a second. libcurl's own limit also counts the time that on_body() takes. */
static int on_time(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct http_exchange *h = arg;
	uint64_t now = clock_ms(), limit_s = h->config->low_speed_s;

	if (now >= h->last_ms + limit_s * 1000) {
		h->too_slow = true;
	} else if (now >= h->slow_since_ms + limit_s * 1000) {
		h->too_slow = h->slow_bytes < limit_s * LOW_SPEED_BYTES;
		h->slow_since_ms = now;
		h->slow_bytes = 0;
	}
	return h->too_slow;
}

static int set_options(struct http_exchange *h)
{
	const struct web *web = h->config->web;
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
	SET(CURLOPT_PROXY, web->proxy); /* "": no proxy, even if the environment names one */
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
	/* older libcurl cannot check a reused connection */
	SET(CURLOPT_FORBID_REUSE, web->n_rules > 1 ? 1L : 0L);
#endif
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, h);
#undef SET
	return r ? -EINVAL : 0;
}

int http_exchange_new(struct http_exchange **xp, const struct http_config *config,
		      struct error *err)
{
	_cleanup_(http_exchange_freep) struct http_exchange *h = calloc(1, sizeof(*h));

	if (!h || !(h->curl = curl_easy_init()))
		return error_set(err, ENOMEM, "out of memory");
	h->config = config;
	if (set_options(h) < 0)
		return error_set(err, EOPNOTSUPP, "libcurl %s lacks what is needed",
				 curl_version_info(CURLVERSION_NOW)->version);
	*xp = steal_ptr(h);
	return 0;
}

void http_exchange_free(struct http_exchange *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->curl);
	free(h);
}

/* ---- one request ---- */

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

/* Adds the headers of the request. None of them identifies the user. */
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

/* Adds the signature, which is valid for this address only. Redirects of S3 are not followed, so no
 * other server gets it. */
static int add_signature(struct http_exchange *h, struct curl_slist **list,
			 const struct http_answer *a, const char *url)
{
	char range[64];

	if (!url_is_s3(a->rq->url) || h->config->web->anonymous)
		return 0;
	return s3_make_headers(h->config->web, h->keys, url,
			       http_answer_range(a, range, sizeof(range)) ? range : NULL,
			       add_signed, list);
}

/* Finds the rule that covers the address. For S3, the rules were already checked for the bucket. */
static int find_rule(struct http_exchange *h, const struct http_answer *a, const char *url,
		     struct error *err)
{
	if (!url_is_s3(a->rq->url))
		return web_check_url(h->config->web, url, &h->rule, err);
	h->rule = &h->config->web->s3;
	return h->config->web->anonymous ? 0 : s3_keyring_get(h->config->keyring, &h->keys, err);
}

/* Adds to the error that the keys came from the environment, because the user may also have keys in
 * a file. */
static int explain_keys(const struct http_exchange *h, const struct http_answer *a, int r,
			struct error *err)
{
	if (r == -EACCES && url_is_s3(a->rq->url) && !h->config->web->anonymous &&
	    s3_keyring_is_env(h->config->keyring))
		error_prefix(err, "keys of " KEYS_ENV_ACCESS);
	return r;
}

static bool is_certificate(CURLcode r)
{
	return r == CURLE_PEER_FAILED_VERIFICATION || r == CURLE_SSL_CACERT_BADFILE ||
	       r == CURLE_SSL_ISSUER_ERROR || r == CURLE_SSL_CERTPROBLEM;
}

/* Returns whether another try may succeed. */
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

/* Returns whether one line of the headers is longer than curl accepts. */
static bool is_long_line(CURLcode r)
{
	enum { TOO_LARGE = 100 }; /* CURLE_TOO_LARGE; curl's headers define it since 8.6 */
	return r == CURLE_OUT_OF_MEMORY || (int)r == TOO_LARGE;
}

/* Returns whether the body's chunks are malformed. libcurl reports this as a lost connection, with
 * a text that differs between versions. */
static bool is_bad_chunk(const struct http_exchange *h, CURLcode r)
{
	return r == CURLE_RECV_ERROR && strcasestr(h->error, "chunk");
}

/* Returns whether the connection was lost after the last byte that was requested, before the mark
 * of the body's end (the last chunk). The size is known from an earlier answer or a range. */
static bool lost_only_the_end(const struct http_exchange *h, const struct http_answer *a,
			      CURLcode r)
{
	return r != CURLE_OK && may_pass(r) && !is_bad_chunk(h, r) &&
	       a->verdict == HTTP_ANSWER_BODY && http_answer_is_done(a);
}

/* Returns whether the proxy wants a login before it connects to the server. */
static bool wants_proxy_login(struct http_exchange *h)
{
	long status = 0;

	curl_easy_getinfo(h->curl, CURLINFO_HTTP_CONNECTCODE, &status);
	return status == 407;
}

/* Reports why curl received no complete answer. *againp: another try may succeed. */
static int explain_curl(struct http_exchange *h, struct http_answer *a, CURLcode r, bool *againp,
			struct error *err)
{
	const char *how = h->error[0] ? h->error : curl_easy_strerror(r);

	if (h->address_refused && !h->has_socket) {
		error_exit(err, STAGE_EXIT_REFUSED, EPERM,
			   "%s leads to the address %s, which is not public", a->shown, h->address);
		return error_set_hint(err, -EPERM,
				      "the site can allow it by Networks= of its rule");
	}
	if (a->head.size > HTTP_HEAD_MAX_SIZE || is_long_line(r)) {
		error_set(err, EIO, "%s: the server's headers are too long", a->shown);
		return error_set_hint(err, -EIO, "tell the administrator of the server");
	}
	if (h->too_slow) {
		*againp = true;
		error_set(err, EIO, "%s: next to nothing came for %u s", a->shown,
			  h->config->low_speed_s);
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
		return error_set_hint(err, -EIO, "tell the administrator of the server");
	}
	if (wants_proxy_login(h)) {
		error_set(err, EACCES, "%s: the proxy answers 407, it wants a login", a->shown);
		return error_set_hint(err, -EACCES, "ask the site about its proxy");
	}
	*againp = may_pass(r);
	error_set(err, EIO, "%s: %.300s", a->shown, how);
	if (r == CURLE_COULDNT_RESOLVE_HOST)
		how = "check the server's name: getent hosts NAME on this node";
	else
		how = *againp ? "try again later" : "ask the site";
	return error_set_hint(err, -EIO, "%s", how);
}

int http_exchange_run(struct http_exchange *h, struct http_answer *a, const char *url, bool *againp,
		      struct error *err)
{
	struct curl_slist *headers = NULL;
	CURLcode c;
	int r;

	*againp = false;
	h->address_refused = h->has_socket = h->too_slow = false;
	h->slow_bytes = 0;
	h->answer = a;
	h->error[0] = '\0';
	r = find_rule(h, a, url, err);
	if (r < 0)
		return r;
	http_answer_begin(a, url_is_s3(a->rq->url) ? a->rq->url : url);
	if (make_headers(&headers, a) < 0 || add_signature(h, &headers, a, url) < 0) {
		curl_slist_free_all(headers);
		return error_set(err, ENOMEM, "out of memory");
	}
	c = curl_easy_setopt(h->curl, CURLOPT_URL, url);
	/* an S3 key is not a path: "a/./b" and "a/b" are two keys, and the signature covers the
	 * exact text */
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_PATH_AS_IS, url_is_s3(a->rq->url) ? 1L : 0L);
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
	c = c ? c : curl_easy_setopt(h->curl, CURLOPT_HEADERDATA, a);
	h->slow_since_ms = h->last_ms = clock_ms(); /* reading the keys may have taken seconds */
	c = c ? c : curl_easy_perform(h->curl);
	curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, (struct curl_slist *)NULL);
	curl_slist_free_all(headers);
	if (a->verdict == HTTP_ANSWER_FATAL) {
		*err = *a->err;
		return err->code;
	}
	if (a->verdict == HTTP_ANSWER_ENOUGH || lost_only_the_end(h, a, c))
		return 0;
	if (c != CURLE_OK && (a->verdict != HTTP_ANSWER_OTHER || a->head.status < 300))
		return explain_curl(h, a, c, againp, err);
	return explain_keys(h, a, http_answer_finish(a, againp, err), err);
}
