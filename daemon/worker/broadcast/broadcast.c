/*
 * Not with every version of Slurm does the file's size show which bytes have arrived, so the file
 * is not read before the second note. Its growth shows progress, and that the sender is alive.
 * slurmd may hold the file open for some time after sbcast was killed. So the file is truncated
 * before it is removed, because otherwise its memory would be in use until slurmd closes it.
 */
#include "daemon/worker/broadcast/broadcast.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/broadcast/broadcast-note.h"
#include "daemon/worker/broadcast/broadcast-send.h"

#define POLL_MS 50
#define PATIENCE_MS 60000
#define TRY_MS 15000 /* time for sending the first note, until every node is ready for it */
#define PAUSE_MS 250 /* first pause between tries of the first note; doubled each time */
#define MAX_PAUSE_MS 4000

#define FILE_DATA "data"
#define FILE_GO "go"
#define FILE_END "end"

enum step { STEP_GO, STEP_DATA, STEP_END, STEP_OVER };

struct broadcast {
	struct ctx *ctx;
	struct source *src;
	char *dir;
	char name[DATASET_NAME_SIZE + 8]; /* name of dir; it cannot collide with a dataset, whose
					   * name has no dot */
	int dirfd;
	struct broadcast_note want;

	uint64_t patience_ms, alive_ms, seen; /* seen: size of the data in bytes */
	bool is_going;

	/* used on the first node only: */
	struct broadcast_send *send; /* lent by ctx; NULL on other nodes */
	enum step step;
	bool is_asked;
	uint64_t begun_ms, next_ms, pause_ms;
	struct error failure; /* code 0: no failure */
};

uint64_t broadcast_get_patience_ms(uint64_t stall_ms)
{
	uint64_t ms = stall_ms / 3;

	return stall_ms == 0 || ms > PATIENCE_MS ? PATIENCE_MS : ms;
}

/* ---- the directory that receives the data ---- */

static int make_dir(struct broadcast *s, struct error *err)
{
	int r;

	snprintf(s->name, sizeof(s->name), "%s.in", s->ctx->ds->name);
	s->dir = path_join(s->ctx->tmp_path, s->name);
	if (!s->dir)
		return error_set(err, ENOMEM, "out of memory");
	r = ctx_record(s->ctx, MANIFEST_TREE, s->dir, err);
	if (r == 0)
		/* may be left by a worker that died */
		r = rmtree_at(s->ctx->tmp_fd, s->name, NULL, err);
	if (r < 0)
		return r;
	if (mkdirat(s->ctx->tmp_fd, s->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", s->dir);
	s->dirfd = openat(s->ctx->tmp_fd, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->dirfd < 0 ? error_errno(err, errno, "open %s", s->dir) : 0;
}

/* Opens the received file for reading and writing, whatever its mode is. Returns a descriptor or
 * -errno. */
static int open_data(const struct broadcast *s, struct stat *st)
{
	_cleanup_(fd_closep) int look = openat(s->dirfd, FILE_DATA,
					       O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char name[64];

	if (look < 0 || fstat(look, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid())
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", look);
	if (chmod(name, 0600) < 0)
		return -errno;
	return fd_reopen(look, O_RDWR);
}

static void broadcast_deinit(struct broadcast *s)
{
	struct stat st;
	int fd;

	if (s->dirfd >= 0) {
		fd = s->src->landed ? -1 : open_data(s, &st);
		if (fd >= 0 && ftruncate(fd, 0) < 0)
			stage_io_warn(&s->ctx->io, "%s/" FILE_DATA " could not be emptied", s->dir);
		fd_closep(&fd);
		fd_closep(&s->dirfd);
		/* if this fails, the manifest's release removes it */
		(void)rmtree_at(s->ctx->tmp_fd, s->name, NULL, NULL);
	}
	free(s->dir);
}

/* Returns 1 if the file has a complete note, which is stored in *note; 0: not yet. */
static int read_note(const struct broadcast *s, const char *name, struct broadcast_note *note)
{
	_cleanup_(fd_closep) int fd = openat(s->dirfd, name,
					     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char data[BROADCAST_NOTE_SIZE];
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	return n > 0 && broadcast_note_from_data(note, data, (size_t)n) == BROADCAST_NOTE_E_SUCCESS;
}

static bool is_same(const struct broadcast_note *a, const struct broadcast_note *b)
{
	return a->size == b->size && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns;
}

static int take_file(struct broadcast *s, struct error *err)
{
	struct source *src = s->src;
	struct stat st;
	int fd = open_data(s, &st);

	if (fd < 0)
		return error_errno(err, -fd, "open %s/" FILE_DATA, s->dir);
	if ((uint64_t)st.st_size != s->want.size) {
		close(fd);
		return error_set(err, EIO, "%" PRIu64 " bytes came of %" PRIu64,
				 (uint64_t)st.st_size, s->want.size);
	}
	src->direct_fd = src->fd;
	src->direct_blocks = src->st.st_blocks;
	src->fd = fd;
	src->st.st_blocks = st.st_blocks; /* sbcast fills holes */
	src->landed = true;
	return 0;
}

void broadcast_leave(struct source *src)
{
	if (!src->landed)
		return;
	close(src->fd);
	src->fd = src->direct_fd;
	src->st.st_blocks = src->direct_blocks;
	src->direct_fd = -1;
	src->landed = false;
}

int broadcast_move(struct ctx *ctx, struct source *src, int out, struct hash *hash,
		   struct error *err)
{
	const struct timespec times[2] = { src->st.st_atim, src->st.st_mtim };
	uint64_t size = (uint64_t)src->st.st_size, to;
	int r = 0;

	for (uint64_t from = 0; r == 0 && from < size; from = to) {
		to = size - from < PLAN_BROADCAST_STEP ? size : from + PLAN_BROADCAST_STEP;
		r = copy_file_range_data(&ctx->io, src->fd, out, from, to, false, hash, err);
		if (r == 0)
			(void)fallocate(src->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					/* if this fails, the memory is freed later */
					(off_t)from, (off_t)(to - from));
	}
	if (r == 0 && futimens(out, times) < 0)
		r = error_errno(err, errno, "set its time");
	return r;
}

/* ---- the first node ---- */

static int send_note(struct broadcast *s, enum broadcast_kind kind, const char *name,
		     struct error *err)
{
	struct broadcast_note note = s->want;
	_cleanup_(freep) char *path = path_join(s->dir, name);
	char text[BROADCAST_NOTE_SIZE];

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	note.kind = kind;
	if (kind == BROADCAST_NOT)
		snprintf(note.reason, sizeof(note.reason), "%.*s", BROADCAST_REASON_SIZE - 1,
			 s->failure.text);
	broadcast_note_to_string(&note, text);
	return broadcast_send_text(s->send, text, path, err);
}

static int send_step(struct broadcast *s, struct error *err)
{
	_cleanup_(freep) char *path = NULL;

	s->is_asked = true;
	if (s->step == STEP_GO)
		return send_note(s, BROADCAST_GO, FILE_GO, err);
	if (s->step == STEP_END)
		return send_note(s, s->failure.code ? BROADCAST_NOT : BROADCAST_WHOLE, FILE_END,
				 err);
	path = path_join(s->dir, FILE_DATA);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	s->alive_ms = clock_ms();
	return broadcast_send_file(s->send, s->src->fd, path, err);
}

/* Handles the result of an order. The first note is tried again, because a node that is not ready
 * yet has no directory for it. */
static void take_answer(struct broadcast *s, const struct error *why)
{
	uint64_t now = clock_ms();

	s->is_asked = false;
	s->alive_ms = now;
	if (s->step == STEP_GO && why->code && why->code != -ENOENT &&
	    now - s->begun_ms < (s->patience_ms < TRY_MS ? s->patience_ms : TRY_MS)) {
		s->pause_ms = s->pause_ms ? 2 * s->pause_ms : PAUSE_MS;
		if (s->pause_ms > MAX_PAUSE_MS)
			s->pause_ms = MAX_PAUSE_MS;
		s->next_ms = now + s->pause_ms;
		return;
	}
	if (s->step == STEP_END) {
		s->step = STEP_OVER;
		return;
	}
	if (why->code)
		s->failure = *why;
	else if (s->step == STEP_DATA)
		(void)source_check_unchanged(s->src, &s->failure);
	s->step = s->failure.code || s->step == STEP_DATA ? STEP_END : STEP_DATA;
}

/* Waits a little and, when the last order has ended, gives the next one. */
static int go_on(struct broadcast *s, struct error *err)
{
	struct error why = ERROR_INIT;
	int r;

	if (!s->is_asked && clock_ms() >= s->next_ms) {
		r = send_step(s, err);
		if (r < 0)
			return r;
	}
	if (!s->is_asked) {
		usleep(POLL_MS * 1000);
		return 0;
	}
	r = broadcast_send_poll(s->send, POLL_MS, &why, err);
	if (r > 0)
		take_answer(s, &why);
	return r < 0 ? r : 0;
}

/* ---- every node ---- */

/* Reports growth of the received file as progress. */
static void look_at_growth(struct broadcast *s)
{
	struct stat st;

	if (fstatat(s->dirfd, FILE_DATA, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (uint64_t)st.st_size <= s->seen)
		return;
	ctx_add_progress(s->ctx, (uint64_t)st.st_size - s->seen, 0);
	s->seen = (uint64_t)st.st_size;
	s->alive_ms = clock_ms();
}

static int check_patience(const struct broadcast *s, struct error *err)
{
	if (clock_ms() - s->alive_ms <= s->patience_ms)
		return 0;
	if (s->is_going)
		return error_set(err, ETIMEDOUT, "nothing more came for %" PRIu64 " s",
				 s->patience_ms / 1000);
	return error_set(err, ETIMEDOUT, "the job's first node has not begun for %" PRIu64 " s",
			 s->patience_ms / 1000);
}

/* Returns 1: the data is complete; 0: not yet; or an error with err set. */
static int broadcast_look(struct broadcast *s, struct error *err)
{
	struct broadcast_note note;

	if (!s->is_going && read_note(s, FILE_GO, &note)) {
		s->is_going = true;
		s->alive_ms = clock_ms();
	}
	look_at_growth(s);
	if (!read_note(s, FILE_END, &note))
		return check_patience(s, err);
	if (note.kind == BROADCAST_NOT)
		return error_set(err, EIO, "%s", note.reason[0] ? note.reason : "it failed");
	if (note.kind != BROADCAST_WHOLE || !is_same(&note, &s->want))
		return error_set(err, ESTALE, "the first node sees another size or time of it");
	return 1;
}

/* Waits until the data is complete. The first node stays until all nodes have the second note. */
static int wait_for_it(struct broadcast *s, struct error *err)
{
	int r;

	for (;;) {
		r = ctx_check(s->ctx, err);
		if (r < 0)
			return r;
		if (s->send && s->step != STEP_OVER)
			r = go_on(s, err);
		else
			usleep(POLL_MS * 1000);
		if (r < 0)
			return r;
		if (s->send && s->step == STEP_OVER && s->failure.code) {
			*err = s->failure; /* the other nodes read it in the note */
			return err->code;
		}
		if (s->send && s->step != STEP_OVER) {
			look_at_growth(s);
			r = s->step == STEP_GO ? 0 : check_patience(s, err);
		} else {
			r = broadcast_look(s, err);
		}
		if (r != 0)
			return r;
	}
}

int broadcast_take(struct ctx *ctx, struct source *src, struct error *err)
{
	_cleanup_(broadcast_deinit) struct broadcast s = {
		.ctx = ctx,
		.src = src,
		.dirfd = -1,
		.want = { .size = (uint64_t)src->st.st_size,
			  .mtime_s = src->st.st_mtim.tv_sec,
			  .mtime_ns = (uint32_t)src->st.st_mtim.tv_nsec },
		.patience_ms = broadcast_get_patience_ms(ctx->policy.stall_ms),
		.alive_ms = clock_ms(),
		.begun_ms = clock_ms(),
		.send = ctx->broadcast,
	};
	int r;

	if (ctx->policy.node_index == 0 && !s.send)
		return error_set(err, ENOENT, "this node has no " BROADCAST_PROGRAM);
	r = make_dir(&s, err);
	if (r == 0)
		r = wait_for_it(&s, err);
	if (r > 0)
		r = take_file(&s, err);
	if (r < 0 && ctx_is_cancelled(ctx))
		return ctx_check(ctx, err);
	return r;
}
