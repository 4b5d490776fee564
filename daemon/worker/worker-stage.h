/*
 * worker-stage: the life of one dataset in its worker: probe, plan, reserve, make, verify, publish.
 */
#pragma once

struct ctx;

/* Stages the dataset and sends `ready` or `error`. For a mount, it returns when the mount has
 * ended. Returns the exit status of the process. */
int stage_run(struct ctx *ctx);
