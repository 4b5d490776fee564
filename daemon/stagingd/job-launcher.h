/*
 * job-launcher: the launcher of a job, which starts its workers and mounts for them. Each of its
 * events is passed to the dataset that it is about.
 */
#pragma once

struct error;
struct job;

/* Sets job->launcher. keeper_fd: the socket to the keeper, taken over; -1 if local. Who is local
 * knows the limit of memory then; else the keeper says it, or it is not waited for any longer. */
int job_launcher_start(struct job *job, int keeper_fd, struct error *err);
