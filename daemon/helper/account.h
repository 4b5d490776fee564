/*
 * account: the data of a user's account that his processes get.
 */
#pragma once

#include <sys/types.h>

#include "common/protocol/keeper-helper.h"

/* Looks up an account, which may ask the network (NSS). If there is none, a->known is 0, and *a
 * contains only the gid. */
void user_look_up(struct helper_user *a, uid_t uid, gid_t gid);
