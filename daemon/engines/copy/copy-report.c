/*
 * After the first file that cannot be read, nothing more is copied. The walk continues for
 * UNREADABLE_MS and only opens files, so that the message names more than one unreadable file.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/dataset/facts.h"
#include "common/util/count.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/copy-internal.h"
#include "daemon/engines/copy/stage-io.h"

#define REPORT_SIZE 2048
#define UNREADABLE_MAX 10
#define UNREADABLE_MS 2000

static void count(struct copy *c, uint64_t *n, char *first, size_t size, const char *path)
{
	pthread_mutex_lock(&c->lock);
	if ((*n)++ == 0)
		snprintf(first, size, "%s", path);
	pthread_mutex_unlock(&c->lock);
}

void copy_count_special(struct copy *c, const char *path)
{
	count(c, &c->n_special, c->first_special, sizeof(c->first_special), path);
}

void copy_count_link_out(struct copy *c, const char *path, const char *to)
{
	char text[FACTS_LINK_SIZE];

	count(c, &c->n_links_out, c->first_link_out, sizeof(c->first_link_out),
	      facts_print_link(path, to, text));
}

int copy_mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct copy *c = arg;

	count(c, &c->n_mounts, c->first_mount, sizeof(c->first_mount), dir->path);
	return 0;
}

bool copy_is_doomed(struct copy *c)
{
	if (!atomic_load_explicit(&c->doomed, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&c->lock);
	if (c->n_unreadable >= UNREADABLE_MAX || clock_ms() > c->doomed_ms + UNREADABLE_MS)
		walk_stop(c->walk);
	pthread_mutex_unlock(&c->lock);
	return true;
}

int copy_unreadable(struct walk *w, const char *path, int errnum, void *arg, struct error *err)
{
	struct copy *c = arg;
	size_t n;

	pthread_mutex_lock(&c->lock);
	if (!atomic_exchange(&c->doomed, true))
		c->doomed_ms = clock_ms();
	n = strlen(c->unreadable);
	if (c->n_unreadable++ < UNREADABLE_MAX)
		snprintf(c->unreadable + n, sizeof(c->unreadable) - n, "%s%s", n ? ", " : "",
			 *path ? path : ".");
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* Adds to the warning about entries that were left out, which is one line. */
static void add_warning(char text[static REPORT_SIZE], const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	if (n > 0)
		n += (size_t)snprintf(text + n, REPORT_SIZE - n, "; ");
	va_start(ap, fmt);
	vsnprintf(text + n, REPORT_SIZE - n, fmt, ap);
	va_end(ap);
}

int copy_report(struct copy *c, struct error *err)
{
	char text[REPORT_SIZE] = "", links[FACTS_LINKS_OUT_SIZE];

	if (c->n_unreadable)
		return error_set(err, EACCES, "may not be read: %s%s", c->unreadable,
				 c->n_unreadable > UNREADABLE_MAX ? " and more" : "");
	if (c->n_special)
		add_warning(text, "%llu %s left out (%.150s)", (unsigned long long)c->n_special,
			    count_word(c->n_special, "socket, FIFO or device was",
				       "sockets, FIFOs or devices were"),
			    c->first_special);
	if (c->n_mounts)
		add_warning(text, "mount points inside the source were left out (%.150s)",
			    c->first_mount);
	if (c->n_links_out)
		add_warning(text, "%s",
			    facts_print_links_out(c->n_links_out, c->first_link_out, links));
	if (*text)
		stage_io_warn(c->io, "%s", text);
	return 0;
}
