/*
 * s3-keys: finds the user's keys in the same places as AWS's own tools: in his environment, if a
 * client has sent them, then in a profile of ~/.aws/credentials, then of ~/.aws/config. A file with
 * keys must belong to the user, and nobody else may read it.
 */
#pragma once

#include <stdbool.h>

#include "common/protocol/keys.h"
#include "common/util/cleanup.h"

struct error;

#define S3_KEYS_DEFAULT "default" /* the profile if the user names none */

/* The keys that all threads of a process use to sign requests. */
struct s3_keyring;

/* keys_fd: the keys from the user's environment can be read from it (common/protocol/keys.h); -1:
 * none. keys_fd and profile stay the caller's; profile must outlive the keyring. */
int s3_keyring_new(struct s3_keyring **rp, const char *profile, int keys_fd, struct error *err);
void s3_keyring_free(struct s3_keyring *r);
DEFINE_FREEP(struct s3_keyring, s3_keyring_free)

/* Lends the keys. The first call without keys from the environment reads the files. Thread-safe.
 * Returns 0 or an error with err set; -ENOKEY: the user has no keys. */
int s3_keyring_get(struct s3_keyring *r, const struct keys **keysp, struct error *err);
/* Returns whether the keys came from the user's environment. */
bool s3_keyring_is_env(const struct s3_keyring *r);

enum {
	S3_KEYS_E_SUCCESS,
	S3_KEYS_E_NONE,	     /* this text has no keys */
	S3_KEYS_E_BAD,	     /* a key has an invalid byte or is too long */
	S3_KEYS_E_ELSEWHERE, /* the profile gets its keys from a program, a role or a browser */
};

/* Reads the keys of a profile from the text of a file. The section is [NAME]; in ~/.aws/config
 * (is_config) it is [profile NAME], except for the default profile. *keys is empty unless the
 * result is S3_KEYS_E_SUCCESS. Pure. */
int s3_keys_from_text(struct keys *keys, const char *text, const char *profile, bool is_config);
