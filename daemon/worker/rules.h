/*
 * rules: which resolved paths the site's rule covers.
 */
#pragma once

#include <stdbool.h>

struct error;

/* Makes the list of patterns. match: one pattern of Match= on each line. If the part of a pattern
 * before its first wildcard has symbolic links of root, the list also gets the pattern with these
 * links resolved (/p/scratch -> /gpfs/scratch). Links of other users are not followed, because
 * their owner could change what the rule covers. The list ends with NULL; rules_free() frees it.
 * Returns 0 or an error with err set. */
int rules_new(char ***rulesp, const char *match, struct error *err);
void rules_free(char **rules);

bool rules_allow(char *const *rules, const char *real);
