/*
 * bring-keys: sends the keys for S3 of our environment to the job's daemon.
 */
#pragma once

struct kv;
struct rpc;

/* For a daemon that has asked for keys (needkeys): sends them in a message of its own, or the
 * reason why there are none, on a separate connection. Sends nothing to a daemon that another user
 * runs. */
void bring_keys(const struct rpc *rpc);

/* For a request that may need keys, such as `add`: adds them to it, if there are keys and this user
 * runs the daemon. */
void bring_keys_along(const struct rpc *rpc, struct kv *request);
