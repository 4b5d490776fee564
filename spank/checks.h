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
	char **groups;
	size_t n_groups;
};

/* Gets the caller's names. A name that cannot be looked up becomes a number, or is empty. */
void checks_get_user(struct checks_user *u);
void checks_user_deinit(struct checks_user *u);

/*
 * Compares the expanded list with the configuration and examines the sources; refuses or warns.
 * value: as the user gave it. args: of the command line. An item that looks like a pattern and is
 * the name of a file is treated as a name (dataset_take_literally()). Takes up to 3 s if a file
 * system hangs.
 */
void checks_run(const struct conf *conf, struct dataset_list *list, const char *value,
		const struct client_args *args, const struct checks_user *u);
