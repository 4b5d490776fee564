/*
 * keys: passes a user's keys for S3 from his environment to the process that signs requests. The
 * keys are in separate memory (locked, not in core files, empty in children), in messages, which
 * are erased when they are freed (common/protocol/kv.h), and in sockets. They are in no file,
 * argument or environment of our programs.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct error;
struct kv;

#define KEYS_ENV_ACCESS "AWS_ACCESS_KEY_ID"
#define KEYS_ENV_SECRET "AWS_SECRET_ACCESS_KEY"
#define KEYS_ENV_TOKEN "AWS_SESSION_TOKEN"

struct keys {
	char access[256], secret[256];
	char token[4096]; /* of a temporary session; "": none */
};

enum {
	KEYS_E_SUCCESS,
	KEYS_E_NONE, /* the access key or the secret key is missing */
	KEYS_E_BAD,  /* too long, or with a byte that is not allowed in keys */
};

/* Makes empty keys in memory of their own. Returns 0 or -ENOMEM. If the memory cannot be locked,
 * this is ignored. */
int keys_new(struct keys **keysp);
/* Erases the keys, then frees them. */
void keys_free(struct keys *keys);
DEFINE_FREEP(struct keys, keys_free)

/* Reads the three variables; an empty one counts as not set. On failure, *keys is erased, and err
 * names the variable. */
int keys_from_env(struct keys *keys, struct error *err);
/* Removes them from this process's environment, including the copy that /proc shows. */
void keys_forget_env(void);

/* Write and read the fields access, secret and token. If access is missing, there are no keys. On
 * failure, *keys is erased. */
void keys_to_kv(const struct keys *keys, struct kv *kv);
int keys_from_kv(struct keys *keys, const struct kv *kv);

/* Returns a descriptor from which one process can read the keys, once, with keys_from_fd(), or
 * -errno. A process that only passes the descriptor on does not see the keys. */
int keys_to_fd(const struct keys *keys);
/* Returns KEYS_E_* or -errno. fd stays the caller's. Does not block. */
int keys_from_fd(struct keys *keys, int fd);
