/*
 * cli-filter: lets a site's cli_filter submit movers when users call sbatch directly. sbatch calls
 * its filters after all options are read, and before it calls the plugin's init_post_opt. So the
 * plugin writes the options to a file in memory, whose descriptor number is in the environment. The
 * filter calls `stagectl submit --filter` (etc/cli_filter.lua), which reads this file, submits
 * movers for data that compute nodes cannot see, and writes the value that names the copies to it.
 *
 * What the file looks like is in common/protocol/submit-notes.h.
 */
#pragma once

/* Writes a note with a value. Only in sbatch; in other programs, and after a failure, there are no
 * notes, so the filter does nothing. */
void cli_filter_note(char origin, const char *value);

/* Returns the filter's answer, or NULL if there is none, and removes all notes. The caller
 * frees. */
char *cli_filter_take(void);
