/*
 * submit-env: the variables of a job's data, as they leave the client that submits the job.
 */
#pragma once

struct dataset_list;

/*
 * Sets STAGE_DATA_DIR, STAGE_DATA_NAMES, STAGE_DATA_PATH_<NAME> and, of sets,
 * STAGE_DATA_LIST_<NAME> in this process to paths below RUNDIR_NOT_STAGED. On each node of the job
 * the plugin replaces them (job_env_place()). Where slurmd has not loaded the plugin they stay, and
 * the job sees why its data is missing. 0 or -ENOMEM.
 */
int submit_env_set(const struct dataset_list *list);
