/*
 * check: finds out whether there is a complete copy of a source, made from the source as it is
 * now.
 */
#pragma once

struct error;
struct move_order;

/* Maximum number of lines. To check more would take too long here, so a mover does it. */
#define CHECK_MAX_LINES 50000

/* Checks whether there is a complete copy of the source. Returns 1: there is one, and the access
 * times of all its files are set to now, for programs that remove unused files. Returns 0: there is
 * none, and *whyp has the reason. This includes the case that a mover has begun and not ended: it
 * may have changed the manifest but not the copy, or left the earlier copy. Returns -errno with err
 * set on an error. A source that cannot be seen from here counts as unchanged. Blocks as long as
 * the file systems do. */
int check_copy(const struct move_order *order, const char **whyp, struct error *err);
