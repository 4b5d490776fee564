/*
 * rule-patterns: which resolved paths the site's rule covers.
 */
#pragma once

#include <stdbool.h>

struct error;

/* Makes the list of patterns. match: one pattern of Match= on each line. If the part of a pattern
 * before its first wildcard has symbolic links of root, the list also gets the pattern with these
 * links resolved (/p/scratch -> /gpfs/scratch). Links of other users are not followed, because
 * their owner could change what the rule covers. The list ends with NULL; rule_patterns_free()
 * frees it. Returns 0 or an error with err set. */
int rule_patterns_new(char ***rulesp, const char *match, struct error *err);
void rule_patterns_free(char **rules);

bool rule_patterns_allow(char *const *rules, const char *real);
