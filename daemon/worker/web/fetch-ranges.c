/*
 * Parts are requested in order, so all bytes before the first unfinished part are in the file.
 * Between the messages of stage-fetch, these bytes are read back from the file, while they are in
 * the page cache, and added to the checksum.
 */
#include "daemon/worker/web/fetch-ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "common/util/page.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/web/fetch-concurrency.h"
#include "daemon/worker/web/fetch-stream.h"

_Static_assert(FETCH_CONCURRENCY_MAX <= FETCH_MAX_THREADS, "a part for each connection");

#define MIN_PART (4ULL << 20)
#define MAX_PART (32ULL << 20)
#define PART_ALIGN (2ULL << 20) /* a multiple of huge pages */
#define HASH_STEP (4u << 20)	/* bytes that are hashed between two checks for messages */
#define HASH_BUFFER (1u << 20)
#define WAIT_MS 1000
#define END_WAIT_MS 2000

struct part {
	uint32_t id; /* 0: this entry is free */
	size_t i;
	uint64_t from, to;
};

struct output {
	int fd;
	size_t n_parts; /* parts that are being fetched */
	bool begun, all_asked;
	time_t modified; /* by the server; 0: it does not say */
};

struct files {
	struct ctx *ctx;
	struct fetch *f;
	const struct fetch_object *objects;
	size_t n;
	const struct fetch_sink *sink;

	struct output *outputs;
	size_t next; /* object whose next part is requested */
	uint64_t next_at;
	struct part parts[FETCH_MAX_THREADS];
	size_t n_parts;
	struct fetch_concurrency pace;

	struct hash *hash;
	int hash_fd;
	char *hash_buf;
	uint64_t hashed;
};

void fetch_objects_free(struct fetch_object *objects, size_t n)
{
	for (size_t i = 0; objects && i < n; i++) {
		free(objects[i].url);
		free(objects[i].name);
	}
	free(objects);
}

static uint64_t part_size(const struct fetch_object *o)
{
	uint64_t size = o->size / FETCH_MAX_THREADS / PART_ALIGN * PART_ALIGN;

	if (!o->ranges)
		return UINT64_MAX;
	if (size < MIN_PART)
		return MIN_PART;
	return size > MAX_PART ? MAX_PART : size;
}

static int begin_object(struct files *s, size_t i, struct error *err)
{
	struct output *out = &s->outputs[i];
	int r;

	if (out->begun)
		return 0;
	r = s->sink->open(s->sink->arg, i, &out->fd, err);
	if (r < 0)
		return r;
	out->begun = true;
	out->modified = http_date_read(s->objects[i].validator.modified);
	if (s->hash) {
		s->hash_fd = fd_reopen(out->fd, O_RDONLY);
		if (s->hash_fd < 0)
			return error_errno(err, -s->hash_fd, "read what was fetched");
	}
	return 0;
}

/* The time is a property that few programs need, so an error does not matter. */
static void set_time(int fd, time_t modified)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = modified } };

	if (modified > 0)
		futimens(fd, times);
}

static int end_object(struct files *s, size_t i, struct error *err)
{
	struct output *out = &s->outputs[i];
	int fd = out->fd;

	out->fd = -1;
	set_time(fd, out->modified);
	return s->sink->close(s->sink->arg, i, fd, err);
}

static struct part *free_part(struct files *s)
{
	size_t i = 0;

	while (s->parts[i].id)
		i++;
	return &s->parts[i];
}

/* Requests the next part of the current object. */
static int ask(struct files *s, struct error *err)
{
	const struct fetch_object *o = &s->objects[s->next];
	struct part *part = free_part(s);
	uint64_t size = part_size(o), left = o->size - s->next_at;
	bool alone = s->next_at == 0 && left <= size;
	struct fetch_get get = {
		.url = o->url,
		.from = s->next_at,
		.to = alone ? HTTP_END : s->next_at + (left < size ? left : size),
		.any_end = s->hash != NULL,
		.known = &o->validator,
		.known_total = o->size,
	};
	int r;

	*part = (struct part){ 0, s->next, get.from, left < size ? o->size : get.from + size };
	r = fetch_get(s->f, &get, s->outputs[s->next].fd, &part->id, err);
	if (r < 0)
		return r;
	s->n_parts++;
	s->outputs[part->i].n_parts++;
	s->next_at = part->to;
	if (s->next_at == o->size) {
		s->outputs[s->next++].all_asked = true;
		s->next_at = 0;
	}
	return 0;
}

/* Requests as many parts as the concurrency allows. Empty objects are complete when they are
 * begun. */
static int ask_more(struct files *s, struct error *err)
{
	int r = 0;

	while (r == 0 && s->next < s->n && s->n_parts < fetch_concurrency_get(&s->pace)) {
		r = begin_object(s, s->next, err);
		if (r == 0 && s->objects[s->next].size == 0)
			r = end_object(s, s->next++, err);
		else if (r == 0)
			r = ask(s, err);
	}
	return r;
}

static int part_done(struct files *s, struct part *part, struct error *err)
{
	struct output *out = &s->outputs[part->i];
	size_t i = part->i;

	part->id = 0;
	s->n_parts--;
	out->n_parts--;
	ctx_add_progress(s->ctx, 0, out->all_asked && out->n_parts == 0);
	return out->all_asked && out->n_parts == 0 ? end_object(s, i, err) : 0;
}

static int handle(struct files *s, const struct fetch_event *e, struct error *err)
{
	struct part *part = NULL;

	for (size_t i = 0; i < FETCH_MAX_THREADS; i++)
		if (s->parts[i].id == e->id && e->id)
			part = &s->parts[i];
	if (!part)
		return 0; /* of an earlier attempt */
	if (e->what == FETCH_FAILED) {
		*err = e->error;
		return err->code;
	}
	if (e->what == FETCH_DONE) {
		s->outputs[part->i].modified = http_date_read(e->reply.validator.modified);
		return part_done(s, part, err);
	}
	ctx_add_progress(s->ctx, e->bytes, 0);
	fetch_concurrency_note(&s->pace, clock_ms(), e->bytes, s->n_parts);
	return 0;
}

/* ---- the checksum ---- */

static uint64_t first_missing(const struct files *s)
{
	uint64_t at = s->next > 0 ? s->objects[0].size : s->next_at;

	for (size_t i = 0; i < FETCH_MAX_THREADS; i++)
		if (s->parts[i].id && s->parts[i].from < at)
			at = s->parts[i].from;
	return at;
}

/* Adds one step to the checksum. *morep: more bytes can be added at once. */
static int add_to_hash(struct files *s, bool *morep, struct error *err)
{
	uint64_t end, stop;
	ssize_t n;

	*morep = false;
	if (!s->hash)
		return 0;
	end = first_missing(s);
	stop = s->hashed + HASH_STEP < end ? s->hashed + HASH_STEP : end;
	while (s->hashed < stop) {
		n = pread(s->hash_fd, s->hash_buf, HASH_BUFFER, (off_t)s->hashed);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_errno(err, n < 0 ? errno : EIO, "read what was fetched");
		if ((uint64_t)n > end - s->hashed)
			n = (ssize_t)(end - s->hashed);
		hash_add(s->hash, s->hash_buf, (size_t)n);
		s->hashed += (uint64_t)n;
	}
	*morep = s->hashed < end;
	return 0;
}

/* ---- the main loop ---- */

static int fetch_ranges_run(struct files *s, struct error *err)
{
	struct fetch_event e;
	bool more = false;
	int r;

	for (;;) {
		r = ask_more(s, err);
		if (r < 0 || (s->n_parts == 0 && s->next == s->n && !more))
			return r;
		r = s->n_parts == 0 ? 0 : fetch_wait(s->f, s->ctx, more ? 0 : WAIT_MS, &e, err);
		if (r > 0)
			r = handle(s, &e, err);
		if (r == 0)
			r = ctx_check(s->ctx, err);
		if (r == 0)
			r = add_to_hash(s, &more, err);
		if (r < 0)
			return r;
	}
}

/* Stops the requests, because they write into files that will be removed, and waits a moment for
 * their end. */
static void give_up(struct files *s)
{
	uint64_t end = clock_ms() + END_WAIT_MS;
	struct error why = ERROR_INIT;
	struct fetch_event e = { 0 };

	fetch_stop(s->f);
	while (s->n_parts > 0 && clock_ms() < end && fetch_wait(s->f, NULL, 100, &e, &why) >= 0)
		for (size_t i = 0; i < FETCH_MAX_THREADS; i++)
			if (s->parts[i].id && s->parts[i].id == e.id && e.what != FETCH_CAME) {
				s->parts[i].id = 0;
				s->n_parts--;
			}
	for (size_t i = 0; i < s->n; i++)
		if (s->outputs[i].fd >= 0)
			s->sink->close(s->sink->arg, i, s->outputs[i].fd, &why);
}

int fetch_ranges_all(struct ctx *ctx, struct fetch *f, const struct fetch_object *objects, size_t n,
		     const struct fetch_sink *sink, struct hash *hash, struct error *err)
{
	struct files s = { .ctx = ctx,
			   .f = f,
			   .objects = objects,
			   .n = n,
			   .sink = sink,
			   .hash = hash,
			   .hash_fd = -1 };
	int r;

	s.outputs = calloc(n + 1, sizeof(*s.outputs));
	s.hash_buf = hash ? malloc(HASH_BUFFER) : NULL;
	if (!s.outputs || (hash && !s.hash_buf)) {
		free(s.outputs);
		free(s.hash_buf);
		return error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < n; i++)
		s.outputs[i].fd = -1;
	fetch_concurrency_init(&s.pace,
			       fetch_concurrency_most(ctx->policy.max_readers, ctx->ds->threads));
	r = fetch_ranges_run(&s, err);
	if (r < 0)
		give_up(&s);
	fd_closep(&s.hash_fd);
	free(s.hash_buf);
	free(s.outputs);
	return r;
}

/* ---- one object ---- */

static int lend_fd(void *arg, size_t i, int *fdp, struct error *err)
{
	*fdp = *(int *)arg;
	return 0;
}

static int keep_fd(void *arg, size_t i, int fd, struct error *err)
{
	return 0;
}

/* Writes an object of unknown size as its bytes arrive. */
static int write_stream(struct ctx *ctx, struct fetch *f, const struct fetch_object *object, int fd,
			struct hash *hash, struct error *err)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	const void *data;
	ssize_t n;
	int r;

	r = fetch_stream_new(&in, ctx, f, object, hash, err);
	while (r == 0 && (n = stream_next(in, &data, err)) != 0) {
		r = n < 0 ? (int)n : ctx_charge(ctx, (uint64_t)n, 0, err);
		if (r == 0)
			r = fd_write_all(fd, data, (size_t)n);
		if (r < 0 && n > 0 && err && !err->code)
			error_errno(err, -r, "write");
	}
	return r;
}

int fetch_ranges_one(struct ctx *ctx, struct fetch *f, const struct fetch_object *object, int fd,
		     struct hash *hash, struct error *err)
{
	const struct fetch_sink sink = { lend_fd, keep_fd, &fd };
	int r;

	if (object->size == HTTP_END)
		return write_stream(ctx, f, object, fd, hash, err);
	r = ctx_charge(ctx, page_round_up(object->size), 0, err);
	if (r < 0)
		return r;
	if (ftruncate(fd, (off_t)object->size) < 0)
		return error_errno(err, errno, "make room for what is fetched");
	return fetch_ranges_all(ctx, f, object, 1, &sink, hash, err);
}
