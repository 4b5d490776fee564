/*
 * hand: the chores of stage-hand (common/protocol/keeper-hand.h), a function each.
 */
#pragma once

/* argv: what follows the name of the chore, as many as main.c's table says. */

/* As the system user. Each writes its answer. */
void hand_site(char **argv);
void hand_path(char **argv);
void hand_account(char **argv);
void hand_metrics(char **argv); /* does not return */

/* As the user: 0 or -errno. */
int hand_release(char **argv);
int hand_empty(char **argv);
int hand_tier_make(char **argv);
int hand_tier_aside(char **argv);
int hand_tier_empty(char **argv);

void hand_over(char **argv); /* writes its answer */

/* As the user; does not return. */
