/*
 * keep-list: what is kept on this node for users' next jobs (common/keep/keep.h), in the tiers of
 * the configuration.
 */
#pragma once

#include <stdbool.h>

struct conf;
struct error;

/* The caller's own: a table. How many, or -errno. */
int keep_list_print(const struct conf *conf, struct error *err);

/* For root: everybody's, each read by a process of the user's. Lines of key=value words: kept, uid,
 * bytes, age (seconds since the last use), keep (seconds it may be unused), used 0/1, source. true:
 * there is one. */
bool keep_list_print_all(const struct conf *conf);
