/*
 * job-launcher: the launcher of a job, which starts its workers and mounts for them. Each of its
 * events is passed to the dataset that it is about.
 */
#pragma once

struct error;
struct job;

/* Sets job->launcher. keeper_fd: the socket to the keeper, taken over; -1: no keeper. Without a
 * keeper, the memory limit is known when this returns; else the keeper reports it, or a timer ends
 * the wait. Returns 0 or an error with err set. */
int job_launcher_start(struct job *job, int keeper_fd, struct error *err);
