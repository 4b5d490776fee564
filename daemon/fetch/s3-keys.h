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

#define S3_KEYS_DEFAULT "default" /* the profile of who names none */

/* What all threads of a process sign with. */
struct s3_keyring;

/* keys_fd: from which those of the environment come (common/protocol/keys.h), -1: from nowhere. It
 * stays the caller's, and so does profile, which lives as long. */
int s3_keyring_new(struct s3_keyring **rp, const char *profile, int keys_fd, struct error *err);
void s3_keyring_free(struct s3_keyring *r);
DEFINE_FREEP(struct s3_keyring, s3_keyring_free)

/* Lends them; the files are read when they are first needed. Any thread. -ENOKEY: there are none.
 */
int s3_keyring_get(struct s3_keyring *r, const struct keys **keysp, struct error *err);
/* They are those of the environment. */
bool s3_keyring_is_env(const struct s3_keyring *r);

enum {
	S3_KEYS_E_SUCCESS,
	S3_KEYS_E_NONE,	     /* not in this text */
	S3_KEYS_E_BAD,	     /* with a byte that keys can't have, or too long */
	S3_KEYS_E_ELSEWHERE, /* the profile gets them by a program, a role or a browser */
};

/* Of a text, whose section is [NAME], in ~/.aws/config [profile NAME] but for the default. *keys is
 * empty unless all is well. Pure. */
int s3_keys_from_text(struct keys *keys, const char *text, const char *profile, bool is_config);
