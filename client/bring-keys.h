/*
 * bring-keys: sends the keys for S3 of our environment to the job's daemon, which waits for them.
 */
#pragma once

struct kv;
struct rpc;

/* Answers a daemon that has asked for keys (needkeys): sends them, or the reason why there are
 * none, on a separate connection. Sends nothing to a daemon that another user runs. */
void bring_keys(const struct rpc *rpc);

/* Adds the keys to a request for rpc, if there are keys and this user runs the daemon. */
void bring_keys_along(const struct rpc *rpc, struct kv *request);
