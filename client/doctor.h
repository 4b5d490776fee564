/*
 * doctor: what a node needs for staging, looked at one by one. Each check says what it found,
 * and, when that is not as it should be, how to mend it.
 */
#pragma once

#include <stdbool.h>

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
	bool quiet;          /* failures and warnings only */
	const char *subject; /* of the check that runs */
	unsigned n_levels[DOCTOR_FAIL + 1];
};

/* One finding. mend: NULL for DOCTOR_OK. */
void doctor_tell(struct doctor *d, enum doctor_level level, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct doctor_check {
	const char *subject;
	void (*run)(struct doctor *d);
};

/* Tables, ended by a check without a subject. */
extern const struct doctor_check doctor_node_checks[];  /* kernel, files, tools */
extern const struct doctor_check doctor_slurm_checks[]; /* hooks and plugin */
extern const struct doctor_check doctor_left_checks[];  /* what earlier jobs left */
