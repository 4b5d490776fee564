/*
 * account: the data of a user's account that his processes get.
 */
#pragma once

#include <sys/types.h>

#include "common/protocol/keeper-helper.h"

/* Copies a text that can become the value of an environment variable. Copies instead, if the text
 * is empty, too long, or has control bytes. */
void user_fill_value(char *buf, size_t size, const char *text, const char *instead);

/* Looks up an account, which may ask the network (NSS). If there is none, a->known is 0, and *a
 * contains the gid, the uid as the name, and "/". */
void user_look_up(struct helper_user *a, uid_t uid, gid_t gid);
