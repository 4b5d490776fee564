/*
 * helper: the tasks of stage-helper (common/protocol/keeper-helper.h). Each task is one function.
 */
#pragma once

/* argv: what follows the name of the task, as many as main.c's table says. */

/* As the system user. Each writes its answer. */
void helper_site(char **argv);
void helper_path(char **argv);
void helper_user(char **argv);
void helper_metrics(char **argv); /* does not return */

/* As the user: 0 or -errno. */
int helper_release(char **argv);
int helper_empty(char **argv);
int helper_tier_make(char **argv);
int helper_tier_aside(char **argv);
int helper_tier_empty(char **argv);

void hand_over(char **argv); /* writes its answer */

/* As the user; does not return. */
