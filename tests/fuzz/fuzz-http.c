/*
 * The answers of a web server, over several tries. The input is a byte that says what is requested,
 * and then packets. Each packet has a kind and two bytes of size: lines of a head, a number of
 * bytes of the body, or the end of a try. The bytes of the body are those of the object at the
 * place that the head announces, so each accepted byte can be compared with the object. A body
 * never has more bytes than its length says, because libcurl checks this.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "daemon/fetch/http-answer.h"

#define URL "https://example.org/a.tar"
#define MAX_PACKETS 60
#define MAX_BODY 4096

struct fetch {
	struct http_answer answer;
	struct http_reply reply;
	struct http_request rq;
	uint64_t next;	/* what the sink has to get */
	uint64_t place; /* in the object: the body's next byte */
	uint64_t sent;	/* of this try's body */
};

static char get_byte(uint64_t place)
{
	return (char)(place * 7 + (place >> 8));
}

static int sink(void *arg, uint64_t at, const void *data, size_t size)
{
	struct fetch *f = arg;

	FUZZ_CHECK(at == f->next && size > 0 && size <= f->rq.to - at);
	FUZZ_CHECK(f->reply.total == HTTP_END || at + size <= f->reply.total);
	for (size_t i = 0; i < size; i++)
		FUZZ_CHECK(((const char *)data)[i] == get_byte(at + i));
	f->next += size;
	return 0;
}

/* -1: it wants no more. */
static int send_body(struct fetch *f, size_t n)
{
	const struct http_head *h = &f->answer.head;
	char body[MAX_BODY];

	if (f->sent == 0)
		f->place = h->status == 206 ? h->range_from : 0;
	n = n < sizeof(body) ? n : sizeof(body);
	if (h->n_lengths && !h->chunked && n > h->length - f->sent)
		n = (size_t)(h->length - f->sent);
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		body[i] = get_byte(f->place++);
	f->sent += n;
	return http_answer_take(&f->answer, body, n);
}

/* False: it is over. */
static bool end_try(struct fetch *f)
{
	struct error err = ERROR_INIT;
	bool again = false;
	int r = http_answer_finish(&f->answer, &again, &err);
	char range[64];

	fuzz_check_error(r, &err);
	if (r == 0 && f->answer.verdict != HTTP_ANSWER_ENOUGH)
		FUZZ_CHECK(f->reply.total == HTTP_END || f->next >= f->rq.to ||
			   f->next <= f->reply.total || f->next == f->rq.from);
	if (r == 0 || (r < 0 && !again))
		return false;
	http_answer_begin(&f->answer, URL);
	http_answer_range(&f->answer, range, sizeof(range));
	f->sent = 0;
	return true;
}

static void play(struct fetch *f, const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	for (int i = 0; i < MAX_PACKETS && end - data >= 3; i++) {
		size_t n = (size_t)data[1] << 8 | data[2], part;
		int kind = data[0] % 3;

		data += 3;
		part = n < (size_t)(end - data) ? n : (size_t)(end - data);
		if (kind == 0 && f->sent == 0 &&
		    http_head_add(&f->answer.head, (const char *)data, part) < 0)
			return;
		if (kind == 1 && send_body(f, n) < 0 && !end_try(f))
			return;
		if (kind == 2 && !end_try(f))
			return;
		data += kind == 0 ? part : 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_validator known = { .etag = "\"1\"" };
	struct error err = ERROR_INIT;
	struct fetch f = { 0 };

	if (size < 2)
		return 0;
	f.rq = (struct http_request){
		.url = URL,
		.from = data[0] & 1 ? data[1] : 0,
		.to = data[0] & 2 ? 300 + data[1] : HTTP_END,
		.whole_is_fine = data[0] & 4,
		.any_end = data[0] & 8,
		.known = data[0] & 16 ? &known : NULL,
		.known_total = data[0] & 32 ? 1000 : HTTP_END,
		.sink = sink,
		.arg = &f,
	};
	f.next = f.rq.from;
	http_answer_init(&f.answer, &f.rq, &f.reply, &err);
	http_answer_begin(&f.answer, URL);
	play(&f, data + 2, size - 2);
	FUZZ_CHECK(f.reply.bytes == f.next - f.rq.from);
	return 0;
}
