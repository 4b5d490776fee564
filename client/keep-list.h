/*
 * keep-list: what is kept on this node for users' next jobs (common/keep/keep.h), in the tiers of
 * the configuration.
 */
#pragma once

#include <stdbool.h>

struct conf;
struct error;

/* Prints a table of the caller's kept datasets. Returns how many there are, or -errno. */
int keep_list_print(const struct conf *conf, struct error *err);

/* For root: prints the kept datasets of all users. A process with the user's identity reads each of
 * them. Each line has key=value words: kept, uid, bytes, age (seconds since the last use), keep
 * (seconds for which it may be unused), used (0 or 1), source. Returns whether there are any. */
bool keep_list_print_all(const struct conf *conf);
