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

/* clock_ms(), or 0: never. What is not of this boot counts as never. */
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

/* For what has no marks, by the time since which it is a leftover (0: not known): true in the first
 * minute of each hour after that, in which the timer comes once or twice. */
bool leftover_may_be_told(uint64_t since_ms);

/* Calls fn for at most max of the jobs' directories that are there now. Users take turns, and of a
 * user's those come first that had no turn for the longest time. So a user who has many that cannot
 * be removed keeps only his own from their turn. 0, or the first failure. */
int leftover_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, size_t max,
		      struct error *err);
