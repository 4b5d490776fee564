/*
 * cli-filter: how a site's cli_filter has movers sent for when sbatch is called as it is.
 *
 * sbatch asks its filters when all options are read, and before the plugin has its say. So what was
 * given is noted in a file in memory, whose number stands in the environment; `stagectl submit
 * --filter`, which the filter calls (etc/cli_filter.lua), reads it there, sends for what compute
 * nodes can't see, and leaves the value that names the copies.
 *
 * What the file looks like is in common/protocol/submit-notes.h.
 */
#pragma once

/* Notes a value. In sbatch alone; elsewhere, and where it fails, nothing: then no filter acts. */
void cli_filter_note(char origin, const char *value);

/* The answer, NULL: none; forgets all that was noted. Caller frees. */
char *cli_filter_take(void);
