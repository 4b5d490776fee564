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

/* Lists of words are kept as one text, separated by single commas; "" is empty. */

struct conf_source { /* [source NAME] */
	char *name;
	char *match;   /* normal absolute path pattern, or URL pattern */
	char *methods; /* "*" or list */
	char *tiers;   /* list of tier names allowed, in order of preference; "" = all */
	char *allow_users, *allow_groups, *deny_users;
	uint64_t max_bytes; /* 0: no limit of its own */
	uint32_t max_readers;
	uint64_t max_rate; /* bytes/s, 0: none */
	char *token_dir;   /* "": none */
	uint64_t token_wait_ms, jitter_ms;
	enum conf_visible visible_on;
	char *mover_partition;
	uint64_t mover_time_ms;
	bool checksum_required;
	char *networks;	       /* that hosts of addresses may be in; "" = public ones alone */
	char *proxy, *ca_file; /* "": none; the system's certificates */
	char *endpoint, *region;
	bool credentials_user;
};

struct conf_tier {  /* [tier NAME] */
	char *name; /* shm, ssd, scratch, … */
	enum conf_tier_kind kind;
	char *path;	/* with %u %g %j %a %N; "" for memory */
	uint64_t quota; /* bytes, 0: none */
	char *require_gres;
	bool provided_by_site; /* Provided=site: the directory is there, never removed by us */
	uint64_t max_keep_ms;  /* 0: nothing stays between jobs */
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
	bool run_rules;	  /* they and [source] hold for `stagectl run` too */
	uint32_t threads; /* 0: as many as the job has CPUs */
	int32_t nice;
	uint64_t abort_after_ms;
	char *log_file; /* "" : syslog only */
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
	struct conf_tier *tiers; /* always has at least "shm" (memory) and "source" is implied */
	size_t n_tiers;
	struct conf_dataset *datasets;
	size_t n_datasets;

	char *path;		    /* of the main file, there or not; for messages */
	char hash[17];		    /* of the bytes read, hex */
	bool from_file;		    /* a file was there */
	struct conf_places *places; /* for conf_get_place() */
	struct conf_source own;	    /* the built-in rule "own" of conf_match(permissive) */
};

int conf_new(struct conf **confp); /* defaults */
void conf_free(struct conf *conf);
DEFINE_FREEP(struct conf, conf_free)

/*
 * Loads path (NULL: STAGE_CONF_DIR "/stage-data.conf") and, beside it, conf.d/ (files *.conf) in
 * byte order, and the file `disabled`. Files and all directories above must belong to root (or to
 * the caller, when the caller is not root) and be writable by nobody else (a sticky directory
 * may), else -EPERM. Opens O_NOFOLLOW|O_NONBLOCK, takes regular files up to 1 MiB.
 */
int conf_load(struct conf **confp, const char *path, struct error *err);

/* For a process that reads the configuration for root without being root: from now on, only files
 * of root are accepted. */
void conf_trust_root_alone(void);

/* As conf_load(), but continues after an error and calls report for each (line 0: the file as a
 * whole); the number found. */
int conf_check(const char *path,
	       void (*report)(void *arg, const char *file, unsigned line, const char *text,
			      const char *hint),
	       void *arg);

/*
 * The place of [section name] or, in a section without a name, of its key name. If several files
 * have it, the last of them. *filep is valid as long as conf. false: no file has it.
 */
bool conf_get_place(const struct conf *conf, const char *section, const char *name,
		    const char **filep, unsigned *linep);

/* Is the feature open for this user (Enabled, disabled, AllowUsers) and partition (NULL: not
 * known)? Of a list, as in `-p a,b`, each partition must be open, because Slurm may start the job
 * in any of them. 0, or -EPERM with the sentence. */
int conf_admit(const struct conf *conf, const char *user, const char *partition, struct error *err);

/* The same of `stagectl run`, of which RunRules=no asks Enabled and disabled alone. */
int conf_admit_run(const struct conf *conf, const char *user, const char *partition,
		   struct error *err);

/* Does `stagectl run` go by no rules, on its user's rights alone (conf_match(permissive))? */
bool conf_run_is_free(const struct conf *conf);

/*
 * The first [source] whose Match fits the source (normal path or URL) and whose user and group
 * rules let this user in. groups: names, n_groups. -EPERM with the sentence that names the
 * rule, or that none matches, and the hint. permissive: what `stagectl run`
 * uses (conf_run_is_free()): every path matches a built-in rule named "own".
 */
int conf_match(const struct conf *conf, const char *source, const char *user,
	       const char *const *groups, size_t n_groups, bool permissive,
	       const struct conf_source **sourcep, struct error *err);

/* Does its Match cover the source, for any user? */
bool conf_source_covers(const struct conf_source *s, const char *source);

/* Is its Match a path, below which no rule matches anything for any user? */
bool conf_source_is_alone(const struct conf *conf, const struct conf_source *s);

/* Does the rule let this user in? */
bool conf_source_admits(const struct conf_source *s, const char *user, const char *const *groups,
			size_t n_groups);

/* The rules for addresses that a worker gets, as lines (daemon/engines/web/web.h); "" for other
 * datasets. The caller frees it. */
struct conf_person {
	const char *user;
	const char *const *groups;
	size_t n_groups;
};
#define CONF_MAX_WEB (16 * 1024) /* further rules are not told then */
int conf_get_web(const struct conf *conf, const struct conf_source *rule, const struct dataset *d,
		 const struct conf_person *who, char **textp);

/* May this rule's data go to this tier / be staged by this method? */
bool conf_source_allows_tier(const struct conf_source *s, const char *tier);
bool conf_source_allows_method(const struct conf_source *s, const char *method);

/* May a job with these gres (gres.h; NULL: none) use it? */
bool conf_tier_is_for(const struct conf_tier *t, const char *gres);

const struct conf_tier *conf_get_tier(const struct conf *conf, const char *name);
/* A number for a tier by its name, kind and Path, the same in every program that has read it: above
 * CONF_TIER_MARK, and an int64_t. The tier with that mark, NULL: none, or it was changed. */
#define CONF_TIER_MARK (UINT64_C(1) << 62)
uint64_t conf_tier_get_mark(const struct conf_tier *t);
const struct conf_tier *conf_find_tier(const struct conf *conf, uint64_t mark);
const struct conf_dataset *conf_get_dataset(const struct conf *conf, const char *name);

/* Is word in a comma separated list? */
bool conf_list_has(const char *list, const char *word);

/* Replaces %u (user) %g (group) %j (job) %a (array task, "0" if NULL) %N (node) %%. Each inserted
 * text must be one component of a path. The caller frees it. */
struct conf_expand {
	const char *user, *group, *node, *array_task;
	uint32_t job_id;
};
int conf_expand_path(const char *path, const struct conf_expand *e, char **outp, struct error *err);

/* Writes every key with its default and its line of documentation, as a file that loads. */
void conf_print_defaults(FILE *f);

/* Replaces an @name item by the values of [dataset NAME]: source, scheme, is_set, and method and
 * sha256 if the item does not set them. Other items are not changed. -ENOENT with the sentence if
 * there is no such dataset. */
int conf_resolve_dataset(const struct conf *conf, struct dataset *d, struct error *err);

struct kv;

/* Sets the limits of all datasets in a task for a worker, of a job with these gres (gres.h); a
 * failure stays with the kv (common/protocol/kv.h). */
void conf_put_limits(const struct conf *conf, const char *gres, struct kv *kv);

struct conf_report;

/* The table of keys, for tests and documents. */
struct conf_key {
	const char *section; /* "daemon", …, "source", "tier", "dataset" for the named ones */
	const char *name;    /* CamelCase */
	const char *type;    /* "bool", "size", "duration", "int", "words", "text", "a|b|c" */
	const char *dflt;    /* as written in a file; "KEY=" with nothing behind it means this */
	const char *doc;

	/* Only for conf-keys.c: the field of the value and its bounds. */
	size_t offset, size;
	uint64_t min, max;
	int (*check)(char **valuep, struct conf_report *report);
};
const struct conf_key *conf_get_keys(size_t *n_keysp);
