/*
 * run-command: the user's command under `stagectl run`.
 */
#pragma once

#include <signal.h>

/*
 * Runs argv with this process's environment, descriptors and process group; mask: what it has
 * blocked, NULL: what is blocked now. Passes on INT, TERM, HUP, USR1 and USR2 and returns its exit
 * status, 128 + n for a signal; 127 or 126 after telling when it can't be run; 1 when there is no
 * process to be had.
 */
int run_command(char *const *argv, const sigset_t *mask);
