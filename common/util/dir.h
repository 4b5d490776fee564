/*
 * dir: a directory is opened to read its names.
 */
#pragma once

#include <dirent.h>

#include "common/util/cleanup.h"

/* name beneath dirfd, "." for dirfd itself: the reading begins at the first name, whoever else
 * reads by dirfd. Links are not followed. Caller closes it (dir_closep). NULL with errno. */
DIR *dir_open_at(int dirfd, const char *name);
