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
	bool quiet;	     /* failures and warnings only */
	struct json *json;   /* NULL: lines for people */
	const char *subject; /* of the check that runs */
	struct conf *conf;   /* NULL: there is none that can be read */
	unsigned n_levels[DOCTOR_FAIL + 1];
};

/* One finding. hint: NULL for DOCTOR_OK. */
void doctor_tell(struct doctor *d, enum doctor_level level, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct doctor_check {
	const char *subject;
	void (*run)(struct doctor *d);
};

/* Tables, ended by a check without a subject. The first one loads conf. */
extern const struct doctor_check doctor_conf_checks[];	/* the configuration and what it names */
extern const struct doctor_check doctor_node_checks[];	/* kernel, files, tools */
extern const struct doctor_check doctor_slurm_checks[]; /* hooks and plugin */
extern const struct doctor_check doctor_left_checks[];	/* what earlier jobs left */

/* Part of the checks of Slurm. config: what `scontrol show config` says. */
void doctor_check_plugin(struct doctor *d, const char *config);

/* Part of the checks of leftovers: jobs whose keeper lives, and of which the node has no process.
 * Warns of those that Slurm says are over and that is_kept says have their keeper yet: how many
 * findings there were. */
#define DOCTOR_MAX_JOBS 256
unsigned doctor_check_keepers(struct doctor *d, const uint32_t *ids, size_t n,
			      bool (*is_kept)(uint32_t job_id));

/* "Key            = value" of config -> value in buf; false: no such key, or "(null)". */
bool doctor_get_key(const char *config, const char *key, char *buf, size_t size);

/* Does it belong to root, and can nobody else write to it (or, in a sticky directory, to others')?
 */
static inline bool doctor_is_roots(const struct stat *st)
{
	return st->st_uid == 0 &&
	       (!(st->st_mode & 022) || (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX));
}
