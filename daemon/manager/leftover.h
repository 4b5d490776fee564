/*
 * leftover: chooses the jobs' directories that the reaper looks at, and stores facts about them
 * between two runs. These facts are in the file `lock`, after root's mark. So no other file is
 * needed, the facts move to .trash with the directory, and the reaper can write them while a keeper
 * lives, which owns the record.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct jobdir;
struct jobdir_id;

/* clock_ms(), or 0: never. A time of an earlier boot counts as never. */
struct leftover_marks {
	uint64_t turn_ms; /* Slurm was asked about it, or its clean-up begun */
	uint64_t told_ms; /* the log has a line why it is left */
};

/* Zeros where nothing is known. */
void leftover_read(const struct jobdir *d, struct leftover_marks *m);

/* Each writes both marks, one of which is now. Where that fails it has an early turn next time, or
 * one more line. */
void leftover_begin_turn(const struct jobdir_id *id, struct leftover_marks *m);
void leftover_note_told(const struct jobdir_id *id, struct leftover_marks *m);

/* Within the last hour */
bool leftover_is_told(const struct leftover_marks *m);

/* For leftovers without marks. since: when it became a leftover (0: not known). True in the first
 * minute of each hour after that, in which the timer runs once or twice. */
bool leftover_may_be_told(uint64_t since_ms);

/* Calls fn for at most max of the jobs' directories that exist now. Users take turns. A user's
 * directories are called in the order of their last turn, the oldest first. So a user with many
 * directories that cannot be removed delays only his own. 0, or the first failure. */
int leftover_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, size_t max,
		      struct error *err);
