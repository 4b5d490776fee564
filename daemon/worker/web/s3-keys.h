/*
 * s3-keys: the user's keys, where AWS's own tools look for them: a profile's in ~/.aws/credentials, else in
 * ~/.aws/config. A file that keys come from has to be the user's own and nobody else's to read.
 */
#pragma once

#include <stdbool.h>

#include "daemon/worker/web/s3-sign.h"

struct error;

#define S3_KEYS_DEFAULT "default" /* the profile of who names none */

int s3_keys_read(struct s3_keys *keys, const char *profile, struct error *err);

enum {
	S3_KEYS_E_SUCCESS,
	S3_KEYS_E_NONE,      /* not in this text */
	S3_KEYS_E_BAD,       /* with a byte that keys can't have, or too long */
	S3_KEYS_E_ELSEWHERE, /* the profile gets them by a program, a role or a browser */
};

/* Of a text, whose section is [NAME], in ~/.aws/config [profile NAME] but for the default. *keys is
 * empty unless all is well. Pure. */
int s3_keys_from_text(struct s3_keys *keys, const char *text, const char *profile, bool is_config);
