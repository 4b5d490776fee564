/*
 * Uses a dataset that exists already: an earlier job of the user has left it on the node
 * (keep-use.h), or another node of the job has made it (job-copy.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/job-copy.h"
#include "daemon/worker/keep-use.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stage-internal.h"

/* Mounts an image that was copied earlier. It belongs to the user, so it is checked like any other
 * image. shown: the plan that stagectl prints. */
static int mount_found(struct stage *s, const char *found_path, const struct plan *shown,
		       struct error *err)
{
	_cleanup_(fd_closep) int fd = open(found_path,
					   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_(freep) char *path = strdup(found_path);
	struct source *src = s->src, found = *src;
	const struct plan plan = s->plan;
	int r;

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	if (fd < 0 || fstat(fd, &found.st) < 0)
		return error_errno(err, errno, "open %s", path);
	found.fd = fd;
	found.path = path;
	s->src = &found;
	s->plan = *shown;
	r = stage_make(s, err);
	s->src = src;
	s->plan = plan;
	return r;
}

/* Mounts a kept image. Returns 1; 0: it cannot be mounted, and must be copied again; or an error
 * with err set. */
static int mount_kept(struct stage *s, const struct plan *shown, struct error *err)
{
	int r = mount_found(s, keep_use_get_path(s->kept), shown, err);

	if (r == 0)
		return 1;
	if (r == -ENODEV || ctx_is_cancelled(s->ctx))
		return r; /* another copy would not help */
	stage_io_warn(&s->ctx->io, "the kept copy of an earlier job is not used: %s", err->text);
	keep_use_drop(s->ctx, s->kept);
	keep_use_free(s->kept);
	s->kept = NULL;
	*err = (struct error)ERROR_INIT;
	ctx_send_facts(s->ctx, &s->facts, &s->plan);
	return 0;
}

static void warn_of_links(struct stage *s)
{
	char links[FACTS_LINKS_OUT_SIZE];

	if (s->facts.n_links_out)
		stage_io_warn(
			&s->ctx->io, "%s",
			facts_print_links_out(s->facts.n_links_out, s->facts.link_out, links));
}

static int link_to(struct stage *s, const char *path, struct error *err)
{
	warn_of_links(s);
	s->result.link_to = strdup(path);
	return s->result.link_to ? 1 : error_set(err, ENOMEM, "out of memory");
}

int stage_take_job_copy(struct stage *s, struct error *err)
{
	struct plan shown;
	int r = job_copy_find(s->ctx, s->src, &s->facts, &s->plan, &s->copy, err);

	if (r <= 0)
		return r;
	job_copy_get_size(s->copy, &s->result.bytes, &s->result.files);
	shown = s->plan;
	snprintf(shown.line, sizeof(shown.line),
		 "one copy for all nodes of the job, made by node %.128s",
		 job_copy_get_maker(s->copy));
	ctx_send_facts(s->ctx, &s->facts, &shown);
	if (s->plan.method != DATASET_METHOD_MOUNT)
		return link_to(s, job_copy_get_path(s->copy), err);
	r = mount_found(s, job_copy_get_path(s->copy), &shown, err);
	return r < 0 ? r : 1;
}

static int use_found(struct stage *s, uint64_t *havep, struct error *err)
{
	struct plan *plan = &s->plan, shown = *plan;
	char size[PARSE_SIZE_TEXT];
	int r;

	keep_use_get_size(s->kept, &s->result.bytes, &s->result.files);
	snprintf(shown.line, sizeof(shown.line), "kept by an earlier job %s %.120s, %s",
		 stage_is_in_memory(s) ? "in" : "on", stage_is_in_memory(s) ? "memory" : plan->tier,
		 size_to_string(s->result.bytes, size));
	ctx_send_facts(s->ctx, &s->facts, &shown);
	/* The memory was charged to an earlier job, so none is claimed now. */
	r = stage_claim(s, stage_is_in_memory(s) ? 0 : s->result.bytes, s->result.files, havep,
			err);
	if (r < 0)
		return r;
	if (plan->method == DATASET_METHOD_MOUNT)
		return mount_kept(s, &shown, err);
	return link_to(s, keep_use_get_path(s->kept), err);
}

int stage_take_keep(struct stage *s, uint64_t *havep, struct error *err)
{
	int r = 0;

	if (!s->keep_is_full || !stage_is_in_memory(s))
		r = keep_use_find(s->ctx, s->src, &s->facts, &s->plan, &s->kept, err);
	return r > 0 ? use_found(s, havep, err) : r;
}

int stage_take_keep_first(struct stage *s, struct error *err)
{
	const struct plan_input in = s->in;
	uint64_t have;
	int r;

	if (!s->ctx->ds->keep_ms)
		return 0;
	for (size_t i = 0; i < s->in.n_spaces; i++)
		s->in.spaces[i].known = false;
	r = stage_plan(s, err);
	s->in = in;
	if (r == 0) {
		/* stagingd needs the facts before it is asked for a directory */
		ctx_send_facts(s->ctx, &s->facts, &s->plan);
		r = keep_use_look(s->ctx, s->src, &s->facts, &s->plan, &s->kept);
	}
	if (r > 0 && use_found(s, &have, err) > 0)
		return 1;
	*err = (struct error)ERROR_INIT;
	return r > 0 ? -EAGAIN : 0;
}
