/*
 * helper: the tasks of stage-helper (common/protocol/keeper-helper.h). Each task is one function.
 */
#pragma once

#include <stddef.h>

/* argv: the arguments after the name of the task. Their number is in the table in main.c. */

/* Writes the answer of a task. If that fails, ends the process with status 1. */
void helper_answer(const void *answer, size_t size);

/* These run as the system user. Each writes its answer itself. */
void helper_site(char **argv);
void helper_path(char **argv);
void helper_user(char **argv);
void helper_metrics(char **argv); /* does not return */

/* These run as the user and return their answer: 0 or -errno. */
int helper_release(char **argv);
int helper_empty(char **argv);
int helper_tier_make(char **argv);
int helper_tier_aside(char **argv);
int helper_tier_empty(char **argv);

void helper_over(char **argv); /* runs as the user, or as the system user if no user is known;
			      * writes its answer itself */
