#include "client/explain-moved.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/json.h"
#include "client/submit-copy.h"
#include "common/config/conf.h"
#include "common/util/parse.h"

void moved_deinit(struct moved *m)
{
	mover_list_deinit(&m->movers);
	mover_progress_deinit(&m->progress);
	free(m->why);
	*m = (struct moved){ 0 };
}

void moved_look(struct moved *m, const struct submit_copy *copy, const struct dataset *asked)
{
	*m = (struct moved){ .copy = copy, .asked = asked };
	m->unknown = mover_list_read(&m->movers, NULL) < 0;
	if (!m->unknown)
		m->mover = mover_list_find(&m->movers, copy->key);
	if (!m->mover)
		m->whole = mover_copy_is_whole(copy, &m->why);
	if (!m->whole)
		mover_progress_read(&m->progress, copy->dir);
}

char *moved_get_place(const struct moved *m, char *buf, size_t size)
{
	char limit[PARSE_DURATION_TEXT];
	const struct submit_copy *c = m->copy;

	snprintf(buf, size,
		 "compute nodes don't see it: stagectl submit has a mover (partition %s, at most "
		 "%s) "
		 "copy it to %s",
		 c->rule->mover_partition, duration_to_string(c->rule->mover_time_ms, limit),
		 c->dir);
	return buf;
}

char *moved_get_state(const struct moved *m, char *buf, size_t size)
{
	char state[256], done[128];
	const char *doubt = m->unknown ? "; squeue gives no answer, so a mover may be copying it"
				       : "";

	mover_progress_to_string(&m->progress, done, sizeof(done));
	if (m->mover)
		snprintf(buf, size, "job %u, %s: %s", (unsigned)m->mover->id,
			 mover_entry_to_string(m->mover, state, sizeof(state)), done);
	else if (m->whole)
		snprintf(buf, size, "%s: complete, and used without a mover", m->copy->path);
	else if (m->progress.begun)
		snprintf(buf, size,
			 "%s; an interrupted mover has left %s, which the next one completes%s",
			 m->why ? m->why : "", done, doubt);
	else
		snprintf(buf, size, "%s%s", m->why ? m->why : "", doubt);
	return buf;
}

void moved_to_json(const struct moved *m, struct json *j)
{
	const struct submit_copy *c = m->copy;

	json_open_object(j, "mover");
	json_put_text(j, "partition", c->rule->mover_partition);
	json_put_text(j, "copy", c->path);
	json_put_bool(j, "whole", m->whole);
	json_put_text(j, "why", m->why);
	if (m->mover)
		json_put_u64(j, "job", m->mover->id);
	else
		json_put_null(j, "job");
	json_put_text(j, "state", m->mover ? m->mover->state : NULL);
	json_put_text(j, "reason", m->mover ? m->mover->reason : NULL);
	json_put_u64(j, "bytes", m->progress.bytes);
	json_put_u64(j, "files", m->progress.files);
	json_put_known(j, "total", m->progress.size);
	json_close_object(j);
}
