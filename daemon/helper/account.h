/*
 * account: what a user's processes are given of his account.
 */
#pragma once

#include <sys/types.h>

#include "common/protocol/keeper-hand.h"

/* May ask the network (NSS). Without an account: its gid and nothing else; a->known says so. */
void account_look_up(struct hand_account *a, uid_t uid, gid_t gid);
