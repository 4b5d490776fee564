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

/* Times of clock_ms(); 0: never. A time from an earlier boot counts as never. */
struct leftover_marks {
	uint64_t turn_ms; /* last time when Slurm was asked about the job, or a clean-up began */
	uint64_t told_ms; /* last time when the log got a line about why it is left */
};

/* Reads the marks. Marks that cannot be read are 0. */
void leftover_read(const struct jobdir *d, struct leftover_marks *m);

/* Set one of the marks to the current time and write both. If writing fails, the directory gets an
 * early turn in the next run, or the log gets one more line. */
void leftover_begin_turn(const struct jobdir_id *id, struct leftover_marks *m);
void leftover_note_told(const struct jobdir_id *id, struct leftover_marks *m);

/* Returns true if the log got a line within the last hour. */
bool leftover_is_told(const struct leftover_marks *m);

/* Returns true if the log should get a line about a leftover without marks. since_ms: when the
 * object became a leftover; 0, or a time of an earlier boot: not known. Returns true in the first
 * 90 seconds of each hour after that; the timer runs once or twice in this time. */
bool leftover_may_be_told(uint64_t since_ms);

/* Calls fn for at most max of the jobs' directories that exist now. Users take turns. A user's
 * directories come in the order of their last turn, the oldest first. So a user with many
 * directories that cannot be removed delays only his own. Returns 0 or the first failure. */
int leftover_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, size_t max,
		      struct error *err);
