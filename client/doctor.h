/*
 * doctor: checks one by one what a node needs for staging. Each check prints its result and, if
 * something is wrong, how to fix it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct conf;
struct json;

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
	bool quiet;	     /* print only failures and warnings */
	struct json *json;   /* NULL: print lines for people */
	const char *subject; /* of the check that is running */
	struct conf *conf;   /* NULL: the configuration cannot be read */
	unsigned n_levels[DOCTOR_FAIL + 1];
};

/* Prints one finding. hint: NULL for DOCTOR_OK. */
void doctor_tell(struct doctor *d, enum doctor_level level, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct doctor_check {
	const char *subject;
	void (*run)(struct doctor *d);
};

/* Tables; the last entry has no subject. The first table's checks load conf. */
extern const struct doctor_check doctor_conf_checks[];	/* the configuration and what it names */
extern const struct doctor_check doctor_node_checks[];	/* kernel, files, tools */
extern const struct doctor_check doctor_slurm_checks[]; /* hooks and plugin */
extern const struct doctor_check doctor_left_checks[];	/* what earlier jobs left */

/* Runs the plugin's part of doctor_slurm_checks. config: output of `scontrol show config`. */
void doctor_check_plugin(struct doctor *d, const char *config);

/* Runs a part of doctor_left_checks: looks for jobs that have a living keeper and no other process
 * on the node. Warns of each job that is over according to Slurm and that still has its keeper
 * according to is_kept(). Returns the number of findings. */
#define DOCTOR_MAX_JOBS 256
unsigned doctor_check_keepers(struct doctor *d, const uint32_t *ids, size_t n,
			      bool (*is_kept)(uint32_t job_id));

/* Finds a line "Key            = value" in config and copies the value to buf. Returns false if
 * there is no such key, or if its value is "(null)". */
bool doctor_get_key(const char *config, const char *key, char *buf, size_t size);

/* Returns whether the file belongs to root and nobody else can write to it. In a sticky directory,
 * others may write to their own files. */
static inline bool doctor_is_roots(const struct stat *st)
{
	return st->st_uid == 0 &&
	       (!(st->st_mode & 022) || (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX));
}
