/*
 * The reading thread collects compressed blocks into jobs, and takes the jobs back in order. Each
 * job decompresses into one block of the pool. The reading thread also computes the checksum of the
 * content. If blocks depend on each other, it does everything itself. The pieces of the input are
 * copied together, because a compressed block may be in two pieces, and liblz4 needs it in one.
 */
#include "daemon/engines/archive/unlz4.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <lz4.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error.h"
#include "daemon/engines/archive/feed.h"
#include "daemon/engines/archive/lz4-frame.h"
#include "daemon/engines/archive/ordered.h"
#include "daemon/engines/archive/stream.h"

#define MAX_PARTS 16 /* parts of a job: BLOCK_SIZE bytes in blocks of the smallest size */
#define MAX_JOBS 6
#define MAX_JOBS_SIZE (12u << 20) /* decompressed size of all jobs */
#define LENT_SIZE (12u << 20)	  /* decompressed bytes that readers hold */
#define MAX_BLOCK (4u << 20)
#define LINK_SIZE 65536 /* maximum distance to which a linked block refers */
#define RAW_BIT 0x80000000u

struct part {
	uint32_t size, sum;
	bool raw;
};

struct job {
	unsigned char *in;
	size_t in_size;
	struct part parts[MAX_PARTS];
	size_t n_parts;
	struct block *out;
	int r;
	struct error error;
};

enum unlz4_state {
	UNLZ4_BETWEEN, /* between frames */
	UNLZ4_BLOCKS,
	UNLZ4_TRAILER, /* the mark after the last block was read */
};

struct unlz4 {
	struct stream stream;
	struct feed feed;
	enum unlz4_state state;
	bool begun; /* a frame was found */
	struct lz4_frame frame;
	XXH32_state_t sum;
	uint64_t size; /* size of the frame's content so far */

	size_t job_size; /* maximum decompressed size of a job; 0: no jobs were made yet */
	size_t n_jobs;
	struct job jobs[MAX_JOBS];
	struct ordered *ordered;

	unsigned char link[LINK_SIZE]; /* the end of the content so far, for linked blocks */
	size_t link_size;
};

static int cut_off(struct error *err)
{
	return error_set(err, ENODATA, "truncated lz4 input");
}

static int take(struct unlz4 *u, void *buf, size_t n, struct error *err)
{
	int r = feed_take(&u->feed, buf, n, err);

	if (r == 0)
		return cut_off(err);
	return r < 0 ? r : 0;
}

static int take_u32(struct unlz4 *u, uint32_t *vp, struct error *err)
{
	int r = take(u, vp, sizeof(*vp), err);

	*vp = le32toh(*vp);
	return r;
}

/* ---- a block ---- */

static int unpack(const struct part *p, const unsigned char *in, unsigned char *out, size_t room,
		  const unsigned char *link, size_t link_size, struct error *err)
{
	int n;

	if (p->raw) {
		memcpy(out, in, p->size);
		return (int)p->size;
	}
	n = link_size ? LZ4_decompress_safe_usingDict((const char *)in, (char *)out, (int)p->size,
						      (int)room, (const char *)link, (int)link_size)
		      : LZ4_decompress_safe((const char *)in, (char *)out, (int)p->size, (int)room);
	return n < 0 ? error_set(err, EBADMSG, "malformed lz4 data") : n;
}

static int unpack_part(struct unlz4 *u, struct job *job, const struct part *p,
		       const unsigned char *in, const unsigned char *link, size_t link_size)
{
	struct block *out = job->out;
	int n;

	if (u->frame.block_sums && XXH32(in, p->size, 0) != p->sum)
		return error_set(&job->error, EBADMSG, "lz4 block checksum error");
	n = unpack(p, in, out->buf + out->size, u->frame.max_block, link, link_size, &job->error);
	if (n > 0)
		out->size += (size_t)n;
	return n < 0 ? n : 0;
}

/* Appends content to which linked blocks may refer. */
static void remember(struct unlz4 *u, const unsigned char *data, size_t size)
{
	size_t keep;

	if (size >= LINK_SIZE) {
		memcpy(u->link, data + size - LINK_SIZE, LINK_SIZE);
		u->link_size = LINK_SIZE;
		return;
	}
	keep = LINK_SIZE - size < u->link_size ? LINK_SIZE - size : u->link_size;
	memmove(u->link, u->link + u->link_size - keep, keep);
	memcpy(u->link + keep, data, size);
	u->link_size = keep + size;
}

/* ---- a job ---- */

static void run_job(void *arg, size_t slot)
{
	struct unlz4 *u = arg;
	struct job *job = &u->jobs[slot];
	const unsigned char *in = job->in;
	size_t before;

	job->r = 0;
	for (size_t i = 0; i < job->n_parts && job->r == 0; i++) {
		before = job->out->size;
		job->r = unpack_part(u, job, &job->parts[i], in, u->link, u->link_size);
		in += job->parts[i].size;
		if (job->r == 0 && u->frame.linked)
			remember(u, job->out->buf + before, job->out->size - before);
	}
}

/* Adds a block to the job. Returns 1, 0 at the frame's end, or -errno. */
static int gather_part(struct unlz4 *u, struct job *job, struct error *err)
{
	struct part *p = &job->parts[job->n_parts];
	uint32_t word;
	int r = take_u32(u, &word, err);

	if (r < 0 || word == 0)
		return r;
	p->raw = word & RAW_BIT;
	p->size = word & ~RAW_BIT;
	if (p->size > u->frame.max_block)
		return error_set(err, EBADMSG, "malformed lz4 data: too large a block");
	r = take(u, job->in + job->in_size, p->size, err);
	if (r == 0 && u->frame.block_sums)
		r = take_u32(u, &p->sum, err);
	if (r < 0)
		return r;
	job->in_size += p->size;
	job->n_parts++;
	return 1;
}

/* Adds as many blocks to the job as its decompressed size allows. Returns 0 or -errno. */
static int gather(struct unlz4 *u, struct job *job, struct error *err)
{
	size_t n_parts = u->job_size / u->frame.max_block;
	int r = 1;

	job->n_parts = job->in_size = 0;
	while (job->n_parts < n_parts && (r = gather_part(u, job, err)) > 0)
		;
	if (r == 0)
		u->state = UNLZ4_TRAILER;
	return r < 0 ? r : 0;
}

static int begin_job(struct unlz4 *u, struct error *err)
{
	struct job *job = &u->jobs[ordered_get_slot(u->ordered)];
	int r;

	r = stream_take_block(&u->stream, &job->out, err);
	if (r < 0)
		return r;
	r = gather(u, job, err);
	if (r < 0 || job->n_parts == 0) {
		block_put(steal_ptr(job->out));
		return r;
	}
	ordered_push(u->ordered);
	return 0;
}

/* Ends a job. Returns 1: *bp is its block; 0: the job was empty; or -errno. */
static int end_job(struct unlz4 *u, struct block **bp, struct error *err)
{
	struct job *job = &u->jobs[ordered_pop(u->ordered)];
	_cleanup_(block_putp) struct block *b = steal_ptr(job->out);

	if (job->r < 0) {
		if (err)
			*err = job->error;
		return job->r;
	}
	u->size += b->size;
	if (u->frame.content_sum)
		XXH32_update(&u->sum, b->data, b->size);
	if (b->size == 0)
		return 0;
	*bp = steal_ptr(b);
	return 1;
}

/* ---- a frame ---- */

static void free_jobs(struct unlz4 *u)
{
	ordered_free(steal_ptr(u->ordered)); /* waits for the jobs, which hold blocks */
	for (size_t i = 0; i < MAX_JOBS; i++) {
		block_put(steal_ptr(u->jobs[i].out));
		free(steal_ptr(u->jobs[i].in));
	}
	u->job_size = 0;
}

/* Makes the jobs and threads. linked: one job and one thread. */
static int make_jobs(struct unlz4 *u, size_t job_size, bool linked, struct error *err)
{
	size_t threads = linked ? 0 : ordered_get_default_threads(), n = threads + 1;
	int r = 0;

	if (n > MAX_JOBS_SIZE / job_size)
		n = MAX_JOBS_SIZE / job_size;
	if (n > MAX_JOBS)
		n = MAX_JOBS;
	free_jobs(u);
	for (size_t i = 0; i < n && r == 0; i++)
		r = (u->jobs[i].in = malloc(job_size)) ? 0 : -ENOMEM;
	if (r == 0)
		r = ordered_new(&u->ordered, n, threads, run_job, u);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	block_pool_set_max(u->stream.pool, n + LENT_SIZE / job_size);
	u->n_jobs = n;
	u->job_size = job_size;
	return 0;
}

static int begin_frame(struct unlz4 *u, struct error *err)
{
	unsigned char header[LZ4_FRAME_MAX_HEADER_SIZE];
	bool was_linked = u->frame.linked;
	size_t job_size;
	int n, r;

	r = take(u, header, 2, err);
	if (r < 0)
		return r;
	n = lz4_frame_get_header_size(header, err);
	if (n < 0)
		return n;
	r = take(u, header + 2, (size_t)n - 2, err);
	if (r == 0)
		r = lz4_frame_parse(&u->frame, header, (size_t)n, err);
	if (r < 0)
		return r;
	job_size = u->frame.max_block > BLOCK_SIZE ? u->frame.max_block : BLOCK_SIZE;
	if (u->job_size != job_size || was_linked != u->frame.linked) {
		r = make_jobs(u, job_size, u->frame.linked, err);
		if (r < 0)
			return r;
	}
	XXH32_reset(&u->sum, 0);
	u->size = u->link_size = 0;
	u->state = UNLZ4_BLOCKS;
	return 1;
}

static int end_frame(struct unlz4 *u, struct error *err)
{
	uint32_t sum;
	int r = 0;

	if (u->frame.content_sum) {
		r = take_u32(u, &sum, err);
		if (r == 0 && sum != XXH32_digest(&u->sum))
			r = error_set(err, EBADMSG, "lz4 stream checksum error");
	}
	if (r == 0 && u->frame.has_size && u->size != u->frame.size)
		r = error_set(err, EBADMSG, "the lz4 frame has %llu of %llu bytes",
			      (unsigned long long)u->size, (unsigned long long)u->frame.size);
	u->state = UNLZ4_BETWEEN;
	return r < 0 ? r : 1;
}

static int skip_frame(struct unlz4 *u, struct error *err)
{
	uint32_t size;
	int r = take_u32(u, &size, err);

	if (r == 0)
		r = feed_skip(&u->feed, size, err);
	return r == 0 ? cut_off(err) : r;
}

/* Begins the next frame. Returns 1; 0: there is none; or -errno. */
static int next_frame(struct unlz4 *u, struct error *err)
{
	uint32_t magic;
	int r = feed_fill(&u->feed, err);

	if (r < 0 || (r == 0 && u->begun))
		return r;
	if (r > 0 && u->begun && *u->feed.data == 0)
		return feed_finish(&u->feed, "lz4", err);
	r = take_u32(u, &magic, err);
	if (r < 0)
		return r;
	if ((magic & ~15u) == LZ4_FRAME_SKIPPABLE_MAGIC)
		return skip_frame(u, err);
	if (magic == LZ4_FRAME_MAGIC) {
		u->begun = true;
		return begin_frame(u, err);
	}
	if (magic == LZ4_FRAME_LEGACY_MAGIC) {
		error_set(err, EINVAL, "there is lz4 data in the legacy format");
		return error_set_hint(err, -EINVAL, "pack it again by lz4 without -l");
	}
	return feed_refuse_rest("lz4", err);
}

/* ---- the stream ---- */

static int unlz4_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct unlz4 *u = (struct unlz4 *)s;
	int r;

	for (;;) {
		while (u->state == UNLZ4_BLOCKS && ordered_n_pending(u->ordered) < u->n_jobs) {
			r = begin_job(u, err);
			if (r < 0)
				return r;
		}
		if (u->state == UNLZ4_BETWEEN)
			r = next_frame(u, err);
		else if (ordered_n_pending(u->ordered) == 0)
			r = end_frame(u, err);
		else if ((r = end_job(u, bp, err)) == 0)
			continue;
		else
			return r;
		if (r <= 0)
			return r;
	}
}

static void unlz4_stop(struct stream *s)
{
	stream_stop(((struct unlz4 *)s)->feed.in);
}

static void unlz4_close(struct stream *s)
{
	struct unlz4 *u = (struct unlz4 *)s;

	free_jobs(u);
	stream_close(u->feed.in);
	free(u);
}

int unlz4_new(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = unlz4_next_block,
		.stop = unlz4_stop,
		.close = unlz4_close,
	};
	struct unlz4 *u = calloc(1, sizeof(*u));
	struct block_pool *pool;
	int r;

	/* Only the part of the blocks that the frames need is touched. */
	if (!u || block_pool_new(&pool, STREAM_MIN_BLOCKS, MAX_BLOCK) < 0) {
		free(u);
		return error_set(err, ENOMEM, "out of memory");
	}
	u->stream.ops = &ops;
	u->stream.pool = pool;
	u->feed.in = in;
	r = stream_new_aligned(sp, &u->stream, err); /* frames may end at any offset */
	if (r < 0) {
		block_pool_free(pool);
		free(u);
	}
	return r;
}
