/*
 * helper: the tasks of stage-helper (common/protocol/keeper-helper.h). Each task is one function.
 */
#pragma once

/* argv: the arguments after the name of the task. Their number is in the table in main.c. */

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

void hand_over(char **argv); /* runs as the user, or as the system user if no user is known;
			      * writes its answer itself */
