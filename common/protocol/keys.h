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
	char token[4096]; /* of a session; "": none */
};

enum {
	KEYS_E_SUCCESS,
	KEYS_E_NONE, /* one of the two is not there */
	KEYS_E_BAD,  /* too long, or with a byte that keys can't have */
};

/* Empty, in a place of their own. -ENOMEM. A machine that locks no memory for us is no failure. */
int keys_new(struct keys **keysp);
/* Wiped first. */
void keys_free(struct keys *keys);
DEFINE_FREEP(struct keys, keys_free)

/* The three variables; one that is empty is not set. Unless it succeeds *keys is wiped, and err
 * says which variable it was. */
int keys_from_env(struct keys *keys, struct error *err);
/* Takes them out of this process's environment, also as /proc shows it. */
void keys_forget_env(void);

/* The fields access, secret and token; without the first there are none. *keys is wiped unless it
 * succeeds. */
void keys_to_kv(const struct keys *keys, struct kv *kv);
int keys_from_kv(struct keys *keys, const struct kv *kv);

/* A descriptor from which one process can read the keys, once, by keys_from_fd(). A process that
 * passes it on does not see them. -errno. */
int keys_to_fd(const struct keys *keys);
/* KEYS_E_* or -errno. fd stays the caller's. Does not block. */
int keys_from_fd(struct keys *keys, int fd);
