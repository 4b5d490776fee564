/*
 * env-file: what the job's processes get into their environment: STAGE_DATA_* and, where the site
 * wants it, what container runtimes read. One NAME=VALUE a line in <rundir>/t/.stage/env.
 */
#pragma once

#include <stdio.h>

struct error;
struct job_info;
struct job_runs;

/* Writes the lines to f: for the file and for the op `env`. */
void env_file_print(const struct job_info *info, const struct job_runs *runs, FILE *f);

/* Writes env.tmp and renames it. */
int env_file_write(const struct job_info *info, const struct job_runs *runs, struct error *err);
