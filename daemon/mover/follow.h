/*
 * follow: the links of a source whose targets are copied instead (links=follow). A target must fit
 * the site's rule, as when a job stages the source.
 */
#pragma once

#include <sys/stat.h>

struct allowed;
struct error;
struct move;
struct move_order;
struct walk;
struct walk_dir;

/* source_fd: the opened source. Returns 0 or an error with err set. */
int follow_new(struct allowed **ap, const struct move_order *order, int source_fd,
	       struct error *err);
void follow_free(struct allowed *a);

/* Counts the directory if the source has a link to it in its place. follow_link() cannot do this,
 * because the walk follows such a link twice. */
void follow_count_dir(struct move *m, const struct walk_dir *dir);

/* The op follow() of the mover's walk (daemon/engines/copy/walk.h). arg: the struct move. */
int follow_link(struct walk *w, struct walk_dir *dir, const char *name, int *fdp, struct stat *st,
		void *arg, struct error *err);
