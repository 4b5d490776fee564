/*
 * worker-stage: the life of one dataset in its worker: probe, plan, reserve, make, verify, publish.
 */
#pragma once

struct ctx;

/* Sends ready or error. Returns the exit status of the process. For what stays it returns when that
 * has ended. */
int stage_run(struct ctx *ctx);
