/*
 * run-command: the user's command under `stagectl run`.
 */
#pragma once

#include <signal.h>

/*
 * Runs argv with this process's environment, descriptors and process group. mask: the signals that
 * are blocked in the command; NULL: those that are blocked now. Passes on INT, TERM, HUP, USR1 and
 * USR2. Returns the command's exit status; 128 + n for a signal; 127 or 126 after a message if it
 * cannot be run; 1 if fork() fails.
 */
int run_command(char *const *argv, const sigset_t *mask);
