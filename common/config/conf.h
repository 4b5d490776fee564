/*
 * conf: /etc/stage-data/stage-data.conf and conf.d/ (files *.conf), read by inih.
 *
 * One table of keys (conf_keys) is the parser, the defaults, `--print-defaults` and what the
 * example file and the manual are checked against. Any error in a file, an unknown key
 * included, fails the whole load with file, line and hint: the feature is closed then for jobs
 * that ask for it. A missing file gives the defaults with no source allowed.
 *
 * Runs in sbatch, slurmd, slurmstepd, keeper, daemon and clients: libc and inih only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/dataset/dataset.h"
#include "common/util/cleanup.h"

struct error;

enum conf_launch { CONF_LAUNCH_AUTO, CONF_LAUNCH_PROLOG, CONF_LAUNCH_STEP };
enum conf_wait { CONF_WAIT_SCRIPT, CONF_WAIT_TASKS, CONF_WAIT_NO };
enum conf_tier_kind { CONF_TIER_MEMORY, CONF_TIER_DISK, CONF_TIER_SHARED };
enum conf_visible { CONF_VISIBLE_ALL, CONF_VISIBLE_MOVER };
enum conf_mount { CONF_MOUNT_NONE, CONF_MOUNT_FUSE, CONF_MOUNT_SQUASHFUSE };
enum conf_fanout { CONF_FANOUT_OFF, CONF_FANOUT_AUTO, CONF_FANOUT_SBCAST };

/* A list of words is one text, with single commas as separators; "" is the empty list. */

struct conf_source { /* [source NAME] */
	char *name;
	char *match;   /* normal absolute path pattern, or URL pattern */
	char *methods; /* "*" or list */
	char *tiers;   /* allowed tiers, in order of preference; "": all */
	char *allow_users, *allow_groups, *deny_users;
	uint64_t max_bytes; /* 0: no limit in this rule */
	uint32_t max_readers;
	uint64_t max_rate; /* bytes per second; 0: no limit */
	char *token_dir;   /* "": none */
	uint64_t token_wait_ms, jitter_ms;
	enum conf_visible visible_on;
	char *mover_partition;
	uint64_t mover_time_ms;
	bool checksum_required;
	char *networks;	       /* networks in which servers may be; "": public addresses only */
	char *proxy, *ca_file; /* "": none; for ca_file, the system's certificates */
	char *endpoint, *region;
	bool credentials_user;
};

struct conf_tier {  /* [tier NAME] */
	char *name; /* shm, ssd, scratch, … */
	enum conf_tier_kind kind;
	char *path;	/* with %u %g %j %a %N; "" for memory */
	uint64_t quota; /* bytes, 0: none */
	char *require_gres;
	bool provided_by_site; /* Provided=site: the site makes and removes the directory */
	uint64_t max_keep_ms;  /* 0: keep= has no effect */
};

struct conf_dataset { /* [dataset NAME] */
	char *name, *source, *sha256, *description;
	enum dataset_method method;
};

struct conf {
	/* [daemon] */
	bool enabled;
	char *disabled_text; /* text of the file `disabled`, or NULL; then enabled is false */
	enum conf_launch launch;
	enum conf_wait default_wait;
	char *allow_users, *partitions;
	bool run_rules;	  /* allow_users, partitions and the rules apply to `stagectl run`, too */
	uint32_t threads; /* 0: as many as the job has CPUs */
	int32_t nice;
	uint64_t abort_after_ms;
	char *log_file; /* "": syslog only */
	/* [limits] */
	uint32_t max_items;
	uint64_t max_bytes, max_files; /* 0: none */
	uint32_t max_memory_percent;
	uint64_t keep_free_memory;
	uint64_t stall_timeout_ms, cleanup_timeout_ms;
	/* [mount] */
	enum conf_mount mount_backend;
	uint64_t mount_timeout_ms;
	uint64_t cache_size;
	char *job_namespace; /* "none" or a path with %j %N */
	/* [fanout] */
	enum conf_fanout fanout;
	uint32_t fanout_min_nodes;
	char *fanout_program; /* a name or an absolute path */
	/* [containers] [metrics] */
	char *containers_export;
	char *metrics_textfile;

	struct conf_source *sources;
	size_t n_sources;
	struct conf_tier *tiers; /* includes at least "shm" (memory); "source" is not in it */
	size_t n_tiers;
	struct conf_dataset *datasets;
	size_t n_datasets;

	char *path;		    /* of the main file, even if it does not exist; for messages */
	char hash[17];		    /* of all files' bytes; hex */
	bool from_file;		    /* a configuration file exists */
	struct conf_places *places; /* for conf_get_place() */
	struct conf_source own;	    /* the built-in rule "own", see conf_match() */
};

int conf_new(struct conf **confp); /* makes the defaults */
void conf_free(struct conf *conf);
DEFINE_FREEP(struct conf, conf_free)

/*
 * Loads path (NULL: STAGE_CONF_DIR "/stage-data.conf"), then in its directory conf.d/ (files
 * *.conf, in byte order) and the file `disabled`. Files and all directories above must belong to
 * root, or to the caller if the caller is not root. Nobody else may be able to write to them,
 * except to a sticky directory. Otherwise the result is -EPERM. Opens with O_NOFOLLOW
 * O_NONBLOCK and accepts regular files of up to 1 MiB.
 */
int conf_load(struct conf **confp, const char *path, struct error *err);

/* From now on, accepts only files of root. For a process that reads the configuration for root and
 * runs as another user. */
void conf_trust_root_alone(void);

/* Loads as conf_load() does, but continues after an error and calls report() for each error (line
 * 0: the whole file). Returns the number of errors. */
int conf_check(const char *path,
	       void (*report)(void *arg, const char *file, unsigned line, const char *text,
			      const char *hint),
	       void *arg);

/* Finds the place of [section name], or of the key `name` in an unnamed section. If several
 * files have it, the last one counts. *filep is valid as long as conf. Returns false if no file
 * has it. */
bool conf_get_place(const struct conf *conf, const char *section, const char *name,
		    const char **filep, unsigned *linep);

/*
 * Checks whether this user may use staging in this partition (Enabled, disabled, AllowUsers,
 * Partitions). partition: NULL if not known; in a list, as in `-p a,b`, each partition must be
 * allowed, because Slurm may start the job in any of them. Returns 0, or -EPERM with the sentence.
 */
int conf_admit(const struct conf *conf, const char *user, const char *partition, struct error *err);

/* Does the same for `stagectl run`. With RunRules=no, only Enabled and the file `disabled`
 * count. */
int conf_admit_run(const struct conf *conf, const char *user, const char *partition,
		   struct error *err);

/* Returns whether `stagectl run` ignores the rules and depends only on the rights of its user. */
bool conf_run_is_free(const struct conf *conf);

/*
 * Finds the first [source] whose Match fits the source (a normal path or an address) and that
 * admits the user. groups: n_groups names. Returns -EPERM with a sentence that names the rule, or
 * reports that no rule matches, and a hint. permissive: each path matches a built-in rule "own",
 * for `stagectl run` (conf_run_is_free()).
 */
int conf_match(const struct conf *conf, const char *source, const char *user,
	       const char *const *groups, size_t n_groups, bool permissive,
	       const struct conf_source **sourcep, struct error *err);

/* Returns whether the rule's Match covers the source, for any user. */
bool conf_source_covers(const struct conf_source *s, const char *source);

/* Returns whether the rule's Match is a path below which no other rule matches. */
bool conf_source_is_alone(const struct conf *conf, const struct conf_source *s);

/* Returns whether the rule admits the user. */
bool conf_source_admits(const struct conf_source *s, const char *user, const char *const *groups,
			size_t n_groups);

/* The user for whom the rules are evaluated. */
struct conf_person {
	const char *user;
	const char *const *groups;
	size_t n_groups;
};
/* Gets the names of the caller's groups, the effective one first. As on the node, a group without a
 * name is represented by its number. Returns 0 or -ENOMEM. */
int conf_get_own_groups(char ***groupsp, size_t *n_groupsp);
void conf_free_groups(char **groups, size_t n_groups);

#define CONF_MAX_WEB (16 * 1024) /* bytes; rules beyond this size are left out */
int conf_get_web(const struct conf *conf, const struct conf_source *rule, const struct dataset *d,
		 const struct conf_person *who, char **textp);

/* Returns whether data of this rule may be staged to this tier, or by this method. */
bool conf_source_allows_tier(const struct conf_source *s, const char *tier);
bool conf_source_allows_method(const struct conf_source *s, const char *method);

/* Returns whether a job with these generic resources (gres.h; NULL: none) may use the tier. */
bool conf_tier_is_for(const struct conf_tier *t, const char *gres);

const struct conf_tier *conf_get_tier(const struct conf *conf, const char *name);
/* A tier's mark is computed from its name, kind and Path, so it is the same in all programs with
 * the same configuration. It is at least CONF_TIER_MARK and fits into an int64_t. conf_find_tier()
 * returns NULL if no tier has that mark, perhaps because the tier was changed. */
#define CONF_TIER_MARK (UINT64_C(1) << 62)
uint64_t conf_tier_get_mark(const struct conf_tier *t);
const struct conf_tier *conf_find_tier(const struct conf *conf, uint64_t mark);
const struct conf_dataset *conf_get_dataset(const struct conf *conf, const char *name);

/* Returns whether word is in a list separated by commas. */
bool conf_list_has(const char *list, const char *word);

/* conf_expand_path() replaces %u (user) %g (group) %j (job) %a (array task, "0" if NULL) %N (node)
 * %%. Each inserted text must be a single component of a path. The caller frees *outp. */
struct conf_expand {
	const char *user, *group, *node, *array_task;
	uint32_t job_id;
};
int conf_expand_path(const char *path, const struct conf_expand *e, char **outp, struct error *err);

/* Writes every key with its default and its line of documentation, as a file that can be loaded. */
void conf_print_defaults(FILE *f);

/* Replaces an @name item by the values of [dataset NAME]: source, scheme, is_set, and method and
 * sha256 if the item does not set them. Other items are not changed. Returns -ENOENT with a
 * sentence if there is no such dataset. */
int conf_resolve_dataset(const struct conf *conf, struct dataset *d, struct error *err);

struct kv;

/* Adds the limits that apply to all datasets to a worker's task. gres: of the job (gres.h). If
 * adding fails, kv keeps the failure (common/protocol/kv.h). */
void conf_put_limits(const struct conf *conf, const char *gres, struct kv *kv);

struct conf_report;

/* The table of keys, for tests and documents. */
struct conf_key {
	const char *section; /* "daemon", …; "source", "tier" or "dataset" for named sections */
	const char *name;    /* CamelCase */
	const char *type;    /* "bool", "size", "duration", "int", "words", "text", "a|b|c" */
	const char *dflt;    /* as written in a file; an empty value ("KEY=") also means this */
	const char *doc;

	/* Used by conf-keys.c only: the field of the value, and its limits. */
	size_t offset, size;
	uint64_t min, max;
	int (*check)(char **valuep, struct conf_report *report);
};
const struct conf_key *conf_get_keys(size_t *n_keysp);
