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

/* Returns whether path is an entry of a dataset that has no mount yet, or none in this mount
 * namespace. Returns false if path does not exist. Does not ask the server of an image. */
bool mount_visible_waits(const char *path);

/* Returns 0 if all ready datasets are visible, or STAGE_EXIT_FAILED with a sentence about the first
 * one that is not. Touches no mount. */
int mount_visible_check(const struct snapshot_list *list, struct error *err);
