/*
 * user-lookup: the data of a user's account that his processes get.
 */
#pragma once

#include <sys/types.h>

#include "common/protocol/keeper-helper.h"

/* May ask the network (NSS). Without an account: its gid and nothing else; a->known says so. */
void user_look_up(struct helper_user *a, uid_t uid, gid_t gid);
