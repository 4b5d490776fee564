/*
 * conf-advice: warnings about lines of a configuration that are correct but do not have the effect
 * that they seem to have. For check-config and the doctor.
 */
#pragma once

#include <stdbool.h>

struct conf;

/* One finding and how to fix it. A finding about a section or a key begins with file and line. */
typedef void conf_advice_fn(void *arg, const char *hint, const char *text);

/* Warns that staging is switched off, and names the setting. Silent if staging is on. */
void conf_advise_off(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of rules that never decide, or exclude nobody, because of another rule. */
void conf_advise_rules(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of users and groups that this machine does not know. Asks the name service, which may take
 * long. */
void conf_advise_names(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of servers in private networks that no Networks= lists. Asks the name service, too. */
void conf_advise_networks(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of partitions that Slurm does not have. Asks sinfo, for at most five seconds. Returns 0,
 * also if no partition is named; -errno if sinfo does not answer. */
int conf_advise_partitions(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of files in conf.d next to the main file that are not read because of their names. */
void conf_advise_files(const struct conf *conf, conf_advice_fn *fn, void *arg);

/* Warns of files and directories that users cannot read. Returns whether there are none. */
bool conf_advise_modes(const struct conf *conf, conf_advice_fn *fn, void *arg);
