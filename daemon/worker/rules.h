/*
 * rules: which resolved paths the site's rule covers.
 */
#pragma once

#include <stdbool.h>

struct error;

/*
 * match: one Match= pattern a line. The list gets each pattern, and where the part before the first
 * wildcard leads through symbolic links that belong to root also the pattern with those resolved
 * (/p/scratch -> /gpfs/scratch): links of anybody else are not followed, or their owner would move
 * the rule. Ends with NULL; rules_free() frees it.
 */
int rules_new(char ***rulesp, const char *match, struct error *err);
void rules_free(char **rules);

bool rules_allow(char *const *rules, const char *real);
