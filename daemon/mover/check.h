/*
 * check: is there a whole copy of a source, as the source is now?
 */
#pragma once

struct error;
struct move_order;

/* With more things in it a look from outside takes too long: a mover does it. */
#define CHECK_MAX_LINES 50000

/*
 * 1: yes, and all of it counts as used just now, for who removes what nobody has used for long. 0:
 * no, *whyp says why: also where a mover began and did not end, who may have changed the manifest
 * and not the copy, or has left the earlier one behind. A source that can't be seen from here is
 * taken for unchanged. May block as long as the file systems do.
 */
int check_copy(const struct move_order *order, const char **whyp, struct error *err);
