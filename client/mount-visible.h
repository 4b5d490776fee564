/*
 * mount-visible: is what the daemon calls ready to be seen in this process's mount namespace, too?
 *
 * A job with a namespace of its own (job_container/tmpfs) doesn't get what is mounted after that
 * was made, unless the site has set JobNamespace=. It would find an empty directory, and read
 * nothing for an hour.
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
