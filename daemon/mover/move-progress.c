#include "daemon/mover/move-progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/mover/place.h"
#include "daemon/mover/record.h"

/* The last piece may be a short one. */
static uint64_t count_pieces(const struct record_entry *e)
{
	uint64_t size = 0;

	for (size_t i = 0; i < e->n_sums; i++)
		if (e->sums[i].text[0])
			size += i + 1 < e->n_sums ? RECORD_PIECE : e->size - i * RECORD_PIECE;
	return size;
}

/* A mover that goes on writes a line for what is there already, too: the latest line of a path
 * counts. */
static void count(struct progress *p, const struct record_table *t)
{
	for (const struct record_entry *e = t->last; e; e = e->below) {
		if (record_find(t, e->path) != e)
			continue;
		p->files += e->type != 'd' && e->type != 'p';
		p->bytes += e->type == 'f' ? e->size : e->type == 'p' ? count_pieces(e) : 0;
		if ((e->type == 'f' || e->type == 'p') && !strcmp(e->path, "."))
			p->size = e->size;
	}
}

int progress_read(struct progress *p, const char *dir, struct error *err)
{
	_cleanup_(record_table_freep) struct record_table *t = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	*p = (struct progress){ 0 };
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", dir);
	if (faccessat(fd, PLACE_JOURNAL, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = record_load(&t, fd, PLACE_JOURNAL, 0, err);
	if (r < 0)
		return r;
	count(p, t);
	p->source = steal_ptr(t->source);
	return 1;
}
