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

/* Any thread. The one who comes first for an inode gets *firstp NULL with the table locked, makes
 * the file and says by link_table_put() what it is called (NULL: it could not be made). Later ones
 * get the path, lent for the table's life. */
void link_table_get(struct link_table *t, const struct stat *st, const char **firstp);
void link_table_put(struct link_table *t, const struct stat *st, const char *path);
