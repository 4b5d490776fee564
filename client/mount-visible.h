/*
 * mount-visible: checks whether a ready dataset is visible in this process's mount namespace. A job
 * with its own namespace (job_container/tmpfs) does not see mounts that are made after the
 * namespace, unless the site has set JobNamespace=. It would find an empty directory, and could run
 * for an hour without its data.
 */
#pragma once

#include <stdbool.h>

struct error;
struct snapshot_list;

/* Is that an entry of a dataset on which nothing is mounted, yet or in this mount namespace? False,
 * too, where there is none. The server of an image is not asked. */
bool mount_visible_waits(const char *path);

/* 0, or STAGE_EXIT_FAILED with a sentence for the first one that is ready and not seen. Touches no
 * mount. */
int mount_visible_check(const struct snapshot_list *list, struct error *err);
