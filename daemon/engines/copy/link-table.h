/*
 * link-table: the inodes of the source that were copied already, so that hard links stay one file.
 */
#pragma once

#include <sys/stat.h>

#include "common/util/cleanup.h"

struct link_table;

int link_table_new(struct link_table **tp);
void link_table_free(struct link_table *t);
DEFINE_FREEP(struct link_table, link_table_free)

/*
 * Called by any thread. Returns the path of the inode's first file, lent for the table's life. Or
 * returns NULL, with the table locked: then the caller makes that file and calls
 * link_table_unlock_and_add() with its path (NULL: it could not be made).
 */
const char *link_table_find_or_lock(struct link_table *t, const struct stat *st);
void link_table_unlock_and_add(struct link_table *t, const struct stat *st, const char *path);
