/*
 * conf-advice: warnings about lines of a configuration that are correct but do not have the effect
 * that they seem to have. For check-config and the doctor.
 */
#pragma once

#include <stdbool.h>

struct conf;

/* One finding and how to fix it. A finding about a section or a key begins with file and line. */
typedef void conf_advice_fn(void *arg, const char *hint, const char *text);

/* That staging is switched off, and by what; nothing where it is on. */
void conf_advise_off(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Rules that never decide, or keep nobody out, because of another rule. */
void conf_advise_rules(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Users and groups that this machine does not know. Asks the name service, which may take long. */
void conf_advise_names(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Servers in private networks that no Networks= lists. Asks the name service, too. */
void conf_advise_networks(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Partitions that Slurm does not have. Asks sinfo, five seconds at most. 0, also where none is
 * named; -errno: sinfo does not tell. */
int conf_advise_partitions(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Files in conf.d beside the main file that are not read because of their name. */
void conf_advise_files(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Files and directories that users can't read. Returns whether there are none. */
bool conf_advise_modes(const struct conf *conf, conf_advice_fn *fn, void *arg);
