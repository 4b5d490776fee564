/*
 * checks: refuses mistakes in sbatch, srun and salloc before a job exists. A refusal ends the
 * client.
 */
#pragma once

#include <stddef.h>

struct client_args;
struct conf;
struct dataset_list;

struct checks_user {
	char name[256];
	char home[4096];
	const char **groups; /* the effective one first */
	size_t n_groups;
};

/* The caller's names; what can't be looked up stays a number, or empty. */
void checks_get_user(struct checks_user *u);
void checks_user_deinit(struct checks_user *u);

/*
 * Holds the list, expanded, against the configuration and looks at the sources: refuses or warns.
 * value: as the user gave it. args: of the command line. What is written like a pattern and is the
 * name of a file is taken literally (dataset_take_literally()). Up to 3 s where a file system
 * hangs.
 */
void checks_run(const struct conf *conf, struct dataset_list *list, const char *value,
		const struct client_args *args, const struct checks_user *u);
