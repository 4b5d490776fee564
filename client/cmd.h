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
	const char *args;		   /* behind the name in the synopsis */
	const char *summary;		   /* one line, no full stop */
	const char *help;		   /* the rest of `stagectl help NAME`, with examples */
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
};

extern const struct cmd cmd_wait, cmd_status, cmd_path, cmd_list, cmd_env, cmd_explain, cmd_add,
	cmd_release, cmd_report, cmd_log, cmd_run, cmd_submit, cmd_pack, cmd_index,
	cmd_check_config, cmd_doctor;

/*
 * getopt_long() in our words: the option's value, -1 at the end of the options, or '?' after
 * the mistake has been told (then return STAGE_EXIT_USAGE). A leading "+" in shorts stops at
 * the first word that is no option.
 */
int cmd_next_option(int argc, char **argv, const char *shorts, const struct option *longs);

/* Numbers behind options; 0, or -EINVAL after telling. */
int cmd_get_duration(const char *verb, const char *option, const char *text, uint64_t *msp);
int cmd_get_timeout(const char *verb, const char *text, uint64_t *msp); /* --timeout: more than 0 */
int cmd_get_size(const char *verb, const char *option, const char *text, uint64_t *bytesp);

/* true: name is one; false after telling. */
bool cmd_check_names(const char *verb, char *const *names, size_t n_names);

/* A helper in libexec, or where STAGE_LIBEXEC_DIR of the environment says (for a build tree).
 * 0 or -ENAMETOOLONG, which is in errno, too. */
int cmd_get_helper(char *buf, size_t size, const char *name);

/* The configuration: NULL for the installed one, or what STAGE_CONF of the environment names, to
 * try a file before it is installed. It binds only what runs as this user. Lent. */
const char *cmd_get_conf(void);
