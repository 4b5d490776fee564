/*
 * bring-keys: sends the keys for S3 of our environment to the job's daemon, which waits for them.
 */
#pragma once

struct kv;
struct rpc;

/* The daemon behind rpc has asked (needkeys): it gets them, or why there are none, by a connection
 * of its own. Nothing is said to a daemon that is not this user's. */
void bring_keys(const struct rpc *rpc);

/* Into a request that goes to rpc, if there are any and it is ours. */
void bring_keys_along(const struct rpc *rpc, struct kv *request);
