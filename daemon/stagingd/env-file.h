/*
 * env-file: the variables for the environment of the job's processes: STAGE_DATA_* and, if the site
 * has set it, the variables of container runtimes. The file <rundir>/t/.stage/env has one
 * NAME=VALUE on each line.
 */
#pragma once

#include <stdio.h>

struct error;
struct job_info;
struct job_runs;

/* Writes the lines to f. Used for the file and for the operation `env`. */
void env_file_print(const struct job_info *info, const struct job_runs *runs, FILE *f);

/* Writes the file under a temporary name and renames it. Returns 0 or an error with err set. */
int env_file_write(const struct job_info *info, const struct job_runs *runs, struct error *err);
