/*
 * cmd: the commands of stagectl, one struct in each cmd-*.c.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cmd {
	const char *name;
	const char *args;		   /* the rest of the synopsis, after the name */
	const char *summary;		   /* one line, no full stop */
	const char *help;		   /* the rest of `stagectl help NAME`, with examples */
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
};

extern const struct cmd cmd_wait, cmd_status, cmd_path, cmd_list, cmd_env, cmd_explain, cmd_add,
	cmd_release, cmd_report, cmd_log, cmd_run, cmd_submit, cmd_pack, cmd_index,
	cmd_check_config, cmd_doctor;

/* Calls getopt_long(). Returns the option's value, -1 at the end of the options, or '?' after it
 * has printed an error; the caller then returns STAGE_EXIT_USAGE. If shorts begins with "+",
 * parsing stops at the first word that is not an option. */
int cmd_next_option(int argc, char **argv, const char *shorts, const struct option *longs);

/* Parse the values of options. Return 0, or -EINVAL after an error message. */
int cmd_get_duration(const char *verb, const char *option, const char *text, uint64_t *msp);
int cmd_get_timeout(const char *verb, const char *text, uint64_t *msp); /* of --timeout; must be
									 * more than 0 */
int cmd_get_size(const char *verb, const char *option, const char *text, uint64_t *bytesp);

/* Returns whether all of these are names of datasets. Prints an error before it returns false. */
bool cmd_check_names(const char *verb, char *const *names, size_t n_names);

/* Writes the path of a helper in libexec, or in STAGE_LIBEXEC_DIR of the environment (for a build
 * tree). Returns 0, or -ENAMETOOLONG, which is also in errno. */
int cmd_get_helper(char *buf, size_t size, const char *name);

/* Returns the path of the configuration: STAGE_CONF of the environment, with which users try a file
 * before it is installed, or NULL for the installed one. It affects only processes of this user.
 * The string is lent. */
const char *cmd_get_conf(void);
