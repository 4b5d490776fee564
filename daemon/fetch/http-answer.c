#include "daemon/fetch/http-answer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/url.h"
#include "daemon/engines/web/s3-list.h"
#include "daemon/engines/web/web.h"

#define MAX_OTHER (256u << 10)

void http_answer_init(struct http_answer *a, const struct http_request *rq,
		      struct http_reply *reply, struct error *err)
{
	*a = (struct http_answer){ .rq = rq, .reply = reply, .err = err, .at = rq->from };
	*reply = (struct http_reply){ .total = rq->known_total };
	if (rq->known)
		reply->validator = *rq->known;
}

void http_answer_begin(struct http_answer *a, const char *url)
{
	a->url = url;
	web_show(url, a->shown, sizeof(a->shown));
	a->begun = false;
	a->head = (struct http_head){ .range_total = UINT64_MAX };
	a->verdict = HTTP_ANSWER_OPEN;
	a->skip = a->other_size = 0;
	a->text[0] = '\0';
}

bool http_answer_range(const struct http_answer *a, char *buf, size_t size)
{
	if (a->no_range || (a->at == 0 && a->rq->to == HTTP_END))
		return false;
	if (a->rq->to == HTTP_END)
		snprintf(buf, size, "bytes=%" PRIu64 "-", a->at);
	else
		snprintf(buf, size, "bytes=%" PRIu64 "-%" PRIu64, a->at, a->rq->to - 1);
	return true;
}

/* ---- the head ---- */

static int fatal(struct http_answer *a, int r)
{
	a->verdict = HTTP_ANSWER_FATAL;
	return r;
}

static int changed(struct http_answer *a)
{
	return fatal(a, error_set(a->err, ESTALE, "%s changed while it was fetched", a->shown));
}

static bool is_known(const struct http_answer *a)
{
	const struct http_validator *v = &a->reply->validator;

	return a->rq->known || a->at > a->rq->from || v->etag[0] || v->modified[0];
}

/* Checks that the answer describes the same object as all earlier answers did. */
static int check_same(struct http_answer *a, uint64_t total)
{
	struct http_reply *reply = a->reply;

	if (is_known(a) && !http_validator_is_same(&reply->validator, &a->head.validator))
		return changed(a);
	if (reply->total != HTTP_END && total != HTTP_END && reply->total != total)
		return changed(a);
	reply->validator = a->head.validator;
	if (total != HTTP_END)
		reply->total = total;
	return 0;
}

static int check_part(struct http_answer *a)
{
	const struct http_head *h = &a->head;

	if (!h->has_range || h->range_bad || h->range_from != a->at || h->range_end <= a->at ||
	    (a->rq->to != HTTP_END && h->range_end > a->rq->to) ||
	    (h->n_lengths && !h->chunked && h->length != h->range_end - h->range_from)) {
		error_set(a->err, EIO, "%s: the server sent another part than it was asked for",
			  a->shown);
		return fatal(a,
			     error_set_hint(a->err, -EIO, "tell the administrator of the server"));
	}
	a->reply->ranges = true;
	return check_same(a, h->range_total);
}

/* Checks an answer with the whole object. If a part was requested, the object changed (If-Range),
 * or the server does not support ranges. */
static int check_whole(struct http_answer *a)
{
	const struct http_head *h = &a->head;
	uint64_t total = h->n_lengths && !h->chunked ? h->length : HTTP_END;
	int r;

	r = check_same(a, total);
	if (r < 0)
		return r;
	a->reply->ranges = false;
	if (a->rq->from > 0 && !a->rq->whole_is_fine) {
		error_set(a->err, EOPNOTSUPP, "%s: the server gave parts of it and now does not",
			  a->shown);
		return fatal(a, error_set_hint(a->err, -EOPNOTSUPP, "try again later"));
	}
	if (!h->n_lengths && !h->chunked && !a->rq->any_end) {
		error_set(a->err, EIO,
			  "%s: the server does not say where it ends, so that it can't "
			  "be told from one that was cut off",
			  a->shown);
		return fatal(a, error_set_hint(a->err, -EIO, "add verify=sha256:HEX"));
	}
	a->skip = a->at;
	return 0;
}

static int check_body(struct http_answer *a)
{
	const struct http_head *h = &a->head;

	if (h->n_lengths > 1 || h->length_bad) {
		error_set(a->err, EIO, "%s: the server states %s", a->shown,
			  h->length_bad ? "a length that is no number" : "more than one length");
		return fatal(a,
			     error_set_hint(a->err, -EIO, "tell the administrator of the server"));
	}
	/* S3 stores the Content-Encoding as uploaded and never encodes; aws writes the stored
	 * bytes, too */
	if (!url_is_s3(a->rq->url) && !http_head_may_be_encoded(h, a->url)) {
		error_set(a->err, EIO, "%s: the server sends it encoded (%s), unasked", a->shown,
			  h->encoding);
		return fatal(a, error_set_hint(a->err, -EIO,
					       "download it by curl --compressed, and stage the "
					       "file"));
	}
	return h->status == 206 ? check_part(a) : check_whole(a);
}

/* Takes the name under which a browser would save the file. */
static void take_name(struct http_answer *a)
{
	size_t end = strcspn(a->url, "?#"), from = end;

	if (a->head.name[0]) {
		strcpy(a->reply->name, a->head.name);
		return;
	}
	while (from > 0 && a->url[from - 1] != '/')
		from--;
	snprintf(a->reply->name, sizeof(a->reply->name), "%.*s", (int)(end - from), a->url + from);
}

/* Decides by the status and the headers what the body is. Later calls change nothing. */
static int http_answer_look(struct http_answer *a)
{
	int r;

	if (a->verdict != HTTP_ANSWER_OPEN)
		return a->verdict == HTTP_ANSWER_FATAL ? -1 : 0;
	if (a->head.status != 200 && a->head.status != 206) {
		a->verdict = HTTP_ANSWER_OTHER;
		return 0;
	}
	r = check_body(a);
	if (r < 0)
		return r;
	take_name(a);
	a->verdict = HTTP_ANSWER_BODY;
	return 0;
}

/* ---- the body ---- */

static int take_other(struct http_answer *a, const char *data, size_t size)
{
	size_t have = strlen(a->text), n = sizeof(a->text) - 1 - have;

	a->other_size += size;
	n = size < n ? size : n;
	for (size_t i = 0; i < n; i++)
		a->text[have + i] = data[i] ? data[i] : ' ';
	a->text[have + n] = '\0';
	return a->other_size > MAX_OTHER ? -1 : 0;
}

/* Returns the offset where the part that is being received ends. */
static uint64_t get_limit(const struct http_answer *a)
{
	uint64_t limit = a->rq->to;

	if (a->head.status == 206 && a->head.range_end < limit)
		limit = a->head.range_end;
	return a->reply->total < limit ? a->reply->total : limit;
}

/* Gives the first `wanted` of n bytes to the sink. More bytes than that are an error of the
 * server. */
static int put(struct http_answer *a, const char *p, uint64_t n, uint64_t wanted)
{
	int r = wanted > 0 ? a->rq->sink(a->rq->arg, a->at, p, (size_t)wanted) : 0;

	if (r < 0) {
		if (!a->err->code)
			error_errno(a->err, -r, "write what came of %s", a->shown);
		fatal(a, r);
		return -1;
	}
	a->at += wanted;
	a->reply->bytes += wanted;
	if (a->head.status == 200 && a->at == a->rq->to) {
		a->verdict = HTTP_ANSWER_ENOUGH;
		return -1;
	}
	if (n > wanted) {
		error_set(a->err, EIO, "%s: the server sent more than it said", a->shown);
		fatal(a, error_set_hint(a->err, -EIO, "tell the administrator of the server"));
		return -1;
	}
	return 0;
}

int http_answer_take(struct http_answer *a, const void *data, size_t size)
{
	const char *p = data;
	uint64_t n = size, part;

	if (http_answer_look(a) < 0)
		return -1;
	if (a->verdict == HTTP_ANSWER_OTHER)
		return take_other(a, data, size);
	part = a->skip < n ? a->skip : n;
	a->skip -= part;
	p += part;
	n -= part;
	part = get_limit(a) - a->at;
	return put(a, p, n, n < part ? n : part);
}

bool http_answer_is_unsure(const struct http_answer *a)
{
	return a->at > a->rq->from && !http_validator_for_range(&a->reply->validator);
}

/* ---- the end ---- */

static const struct {
	int status, errnum;
	bool again;
	const char *hint;
} statuses[] = {
	{ 401, EACCES, false, "it wants a login, which can't be given" },
	{ 403, EACCES, false, "check that the address is open to you (signed ones expire)" },
	{ 404, ENOENT, false, "check the address" },
	{ 407, EACCES, false, "ask the site about its proxy" },
	{ 408, EIO, true, "try again later" },
	{ 410, ENOENT, false, "it was removed permanently" },
	{ 425, EIO, true, "try again later" },
	{ 429, EIO, true, "try again later, or let fewer nodes fetch at once" },
	{ 500, EIO, true, "try again later, or tell the administrator of the server" },
	{ 502, EIO, true, "try again later" },
	{ 503, EIO, true, "try again later" },
	{ 504, EIO, true, "try again later" },
};

/* Returns true if the user may have meant the prefix "s3://bucket/images/" by "s3://bucket/images":
 * there is no dot in the last part and no slash at the end. */
static bool may_be_prefix(const char *shown)
{
	const char *base = strrchr(shown, '/');

	return base && base[1] && !strchr(base, '.');
}

/* Errors of S3 that need another hint than their status, which is often 400. */
static const struct s3_code {
	const char *code;
	int errnum; /* 0: that of the status */
	bool again;
	const char *hint;
} s3_codes[] = {
	{ "SlowDown", 0, true, "try again later" },
	{ "RequestTimeout", 0, true, "try again later" },
	{ "RequestTimeTooSkewed", EACCES, false, "set the clock of this node" },
	{ "InvalidObjectState", EACCES, false,
	  "it is archived (Glacier): restore it first, by aws s3api restore-object, and wait until "
	  "it is there" },
	{ "ExpiredToken", EACCES, false, "get new keys" },
	{ "InvalidToken", EACCES, false, "check your keys and their session token" },
	{ "AuthorizationHeaderMalformed", EACCES, false,
	  "the site's Region= has to be that of the bucket" },
};

static const struct s3_code *find_s3_code(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(s3_codes); i++)
		if (!strcmp(s3_codes[i].code, code))
			return &s3_codes[i];
	return NULL;
}

static const char *s3_hint_of_status(int status)
{
	if (status < 400)
		return "the site's Endpoint= and Region= have to be those of the bucket";
	if (status == 401 || status == 403)
		return "check your keys and what they may read";
	if (status == 407)
		return "ask the site about its proxy";
	if (status < 500 && status != 408 && status != 425 && status != 429)
		return "check the address, and the site's Endpoint= and Region=";
	return "try again later";
}

/* Reports S3's own error code and message, because users can search for them. */
static int s3_answer_refuse(struct http_answer *a, int errnum, bool again, bool *againp,
			    struct error *err)
{
	const struct http_head *h = &a->head;
	char code[64] = "", message[256] = "";
	const struct s3_code *known;
	size_t n = strlen(a->text);

	s3_xml_get(a->text, n, "Code", code, sizeof(code));
	s3_xml_get(a->text, n, "Message", message, sizeof(message));
	known = find_s3_code(code);
	*againp = again || (known && known->again);
	errnum = known && known->errnum ? known->errnum : errnum;
	error_set(err, errnum, "%s: the server answers %d %s%s%s%s%s", a->shown, h->status,
		  *code ? code : h->reason, *message ? " (" : "", message, *message ? ")" : "",
		  h->status >= 300 && h->status < 400 ? ", which leads elsewhere" : "");
	if (known)
		return error_set_hint(err, -errnum, "%s", known->hint);
	if (h->status != 404)
		return error_set_hint(err, -errnum, "%s", s3_hint_of_status(h->status));
	if (strcmp(code, "NoSuchKey") != 0 || !may_be_prefix(a->shown))
		return error_set_hint(err, -errnum, "check bucket and key");
	return error_set_hint(err, -errnum,
			      "check bucket and key, or write %s/ for all objects below it",
			      a->shown);
}

static int refuse_status(struct http_answer *a, bool *againp, struct error *err)
{
	const struct http_head *h = &a->head;
	size_t i = 0;

	while (i < ARRAY_SIZE(statuses) && statuses[i].status != h->status)
		i++;
	if (url_is_s3(a->rq->url))
		return s3_answer_refuse(a, i < ARRAY_SIZE(statuses) ? statuses[i].errnum : EIO,
					i < ARRAY_SIZE(statuses) && statuses[i].again, againp, err);
	if (i == ARRAY_SIZE(statuses)) {
		error_set(err, EIO, "%s: the server answers %d %s", a->shown, h->status, h->reason);
		return error_set_hint(err, -EIO, "check the address");
	}
	*againp = statuses[i].again;
	error_set(err, statuses[i].errnum, "%s: the server answers %d %s", a->shown, h->status,
		  h->reason);
	return error_set_hint(err, -statuses[i].errnum, "%s", statuses[i].hint);
}

static int finish_unsatisfiable(struct http_answer *a, bool *againp, struct error *err)
{
	const struct http_head *h = &a->head;

	if (a->rq->from == 0 && a->at == 0 && h->has_range && !h->range_bad &&
	    h->range_total == 0) {
		a->reply->total = 0;
		a->reply->ranges = true;
		a->reply->validator = h->validator;
		return 0; /* an empty object has no first byte */
	}
	if (is_known(a)) {
		changed(a);
		*err = *a->err;
		return err->code;
	}
	if (a->rq->from == 0 && a->at == 0 && !h->has_range && !a->no_range) {
		a->no_range = true;
		return 0; /* try without Range: an empty object may also give 416 */
	}
	return refuse_status(a, againp, err);
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Checks that all bytes that the server announced have arrived. */
static int finish_body(struct http_answer *a, bool *againp, struct error *err)
{
	const struct http_head *h = &a->head;
	uint64_t end = h->status == 206 ? h->range_end : a->reply->total;

	/* The whole object is shorter than the part that was received before. */
	if (h->status == 200 && a->skip > 0) {
		changed(a);
		*err = *a->err;
		return err->code;
	}
	if (h->status == 200 && a->reply->total == HTTP_END)
		a->reply->total = end = a->at;
	if (a->at == end || http_answer_is_done(a))
		return 0;
	*againp = true;
	error_set(err, EIO, "%s: the server sent less than it said", a->shown);
	return error_set_hint(err, -EIO, "try again later");
}

int http_answer_finish(struct http_answer *a, bool *againp, struct error *err)
{
	if (http_answer_look(a) < 0) {
		*err = *a->err;
		return err->code;
	}
	if (a->verdict == HTTP_ANSWER_BODY)
		return finish_body(a, againp, err);
	if (is_redirect(a->head.status) && !url_is_s3(a->rq->url))
		return HTTP_ANSWER_REDIRECT;
	if (a->head.status == 416)
		return finish_unsatisfiable(a, againp, err);
	return refuse_status(a, againp, err);
}

bool http_answer_is_done(const struct http_answer *a)
{
	uint64_t end = a->rq->to;

	if (a->reply->total < end)
		end = a->reply->total;
	return a->at >= end && end != HTTP_END;
}
