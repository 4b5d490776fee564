/*
 * The table of keys. A row has everything about its key. The parser, the defaults, check-config and
 * the manual use it. "a|b|c" stores the index of the word, so the words have the order of the enum.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/util/strutil.h"

#define IN(type, member) offsetof(struct type, member), sizeof(((struct type *)NULL)->member)
#define MAX_MS (3650ULL * 86400 * 1000)
#define ANY 0, UINT64_MAX
#define TIME 0, MAX_MS
#define SOME_TIME 1, MAX_MS

/* clang-format off */
static const struct conf_section sections[] = {
	{ "daemon" }, { "limits" }, { "mount" }, { "fanout" }, { "containers" }, { "metrics" },
	{ "source",  true, sizeof(struct conf_source),
	  offsetof(struct conf, sources), offsetof(struct conf, n_sources) },
	{ "tier",    true, sizeof(struct conf_tier),
	  offsetof(struct conf, tiers), offsetof(struct conf, n_tiers) },
	{ "dataset", true, sizeof(struct conf_dataset),
	  offsetof(struct conf, datasets), offsetof(struct conf, n_datasets) },
};

static const struct conf_key keys[] = {
	{ "daemon", "Enabled", "bool", "yes",
	  "no: nothing is staged for new jobs; running jobs finish and clean up.",
	  IN(conf, enabled), ANY },
	{ "daemon", "Launch", "auto|prolog|step", "auto",
	  "Where staging starts: in the prolog, in the job's first step, or what Slurm's settings ask for.",
	  IN(conf, launch), ANY },
	{ "daemon", "DefaultWait", "script|tasks|no", "script",
	  "What waits for the data if the user does not say --stage-wait.",
	  IN(conf, default_wait), ANY },
	{ "daemon", "AllowUsers", "words", "",
	  "Users who may stage; empty: all.",
	  IN(conf, allow_users), ANY },
	{ "daemon", "Partitions", "words", "",
	  "Partitions with staging; empty: all.",
	  IN(conf, partitions), ANY },
	{ "daemon", "RunRules", "bool", "no",
	  "Whether [source] rules, AllowUsers and Partitions also apply to stagectl run.",
	  IN(conf, run_rules), ANY },
	{ "daemon", "Threads", "int", "0",
	  "Threads of one dataset's worker; 0: as many as the job has CPUs on the node, 4 at most.",
	  IN(conf, threads), 0, 1024 },
	{ "daemon", "Nice", "int", "0",
	  "Niceness of the workers, 0 to 19.",
	  IN(conf, nice), 0, 19 },
	{ "daemon", "AbortAfter", "duration", "7s",
	  "A mount from which a killed job's processes cannot end is aborted at the latest after this time.",
	  IN(conf, abort_after_ms), 100, MAX_MS },
	{ "daemon", "LogFile", "text", "",
	  "File for the log in addition to syslog, an absolute path that ends in .log; empty: syslog only.",
	  IN(conf, log_file), ANY, conf_check_log_file },

	{ "limits", "MaxItems", "int", "32",
	  "Datasets of one job, 1 to 64.",
	  IN(conf, max_items), 1, DATASET_MAX_ITEMS },
	{ "limits", "MaxBytes", "size", "0",
	  "Bytes that all datasets of a job may have on a node; 0: no limit.",
	  IN(conf, max_bytes), ANY },
	{ "limits", "MaxFiles", "size", "0",
	  "Files that all datasets of a job may have on a node; 0: no limit.",
	  IN(conf, max_files), ANY },
	{ "limits", "MaxMemoryPercent", "int", "50",
	  "Share of the node's memory that datasets of a job may take, 1 to 100.",
	  IN(conf, max_memory_percent), 1, 100 },
	{ "limits", "KeepFreeMemory", "size", "8G",
	  "Memory of the node that staging leaves free.",
	  IN(conf, keep_free_memory), ANY },
	{ "limits", "StallTimeout", "duration", "10m",
	  "A dataset that makes no progress for so long has failed; 0: never.",
	  IN(conf, stall_timeout_ms), TIME },
	{ "limits", "CleanupTimeout", "duration", "60s",
	  "Time for removing a job's data; the rest is then removed in the background.",
	  IN(conf, cleanup_timeout_ms), SOME_TIME },

	{ "mount", "Backend", "none|fuse|squashfuse_ll", "fuse",
	  "Who serves mounted images; none: they are copied or extracted instead.",
	  IN(conf, mount_backend), ANY },
	{ "mount", "MountTimeout", "duration", "30s",
	  "Time after which a mount that does not answer has failed.",
	  IN(conf, mount_timeout_ms), SOME_TIME },
	{ "mount", "CacheSize", "size", "64M",
	  "Memory that one mounted image may use for blocks it has unpacked.",
	  IN(conf, cache_size), 1 << 20, UINT64_MAX },
	{ "mount", "JobNamespace", "text", "none",
	  "Path of the job's mount namespace, with %j and %N, where mounts are repeated; none: not needed.",
	  IN(conf, job_namespace), ANY, conf_check_namespace },

	{ "fanout", "Mode", "off|auto|sbcast", "off",
	  "Whether one node of a job reads for all: from 64 MiB on (auto), or files of any size (sbcast).",
	  IN(conf, fanout), ANY },
	{ "fanout", "MinNodes", "int", "8",
	  "Jobs with fewer nodes read directly.",
	  IN(conf, fanout_min_nodes), 2, UINT32_MAX },
	{ "fanout", "Program", "text", "sbcast",
	  "Slurm's sbcast: a name to be found in /usr/local/bin, /usr/bin or /bin, or an absolute path.",
	  IN(conf, fanout_program), ANY, conf_check_program },

	{ "containers", "Export", "words", "none",
	  "Container tools that get the data's directory bound at the same path: apptainer, pyxis, or none.",
	  IN(conf, containers_export), ANY, conf_check_export },

	{ "metrics", "Textfile", "text", "",
	  "File for the node exporter's textfile collector, ending in .prom; empty: none is written.",
	  IN(conf, metrics_textfile), ANY, conf_check_textfile },

	{ "source", "Match", "text", "",
	  "What this rule allows: an absolute path or an address, with * ? and /** (must be given).",
	  IN(conf_source, match), ANY, conf_check_match },
	{ "source", "Methods", "words", "*",
	  "Methods that may be used: copy, extract, mount, link; * for all.",
	  IN(conf_source, methods), ANY, conf_check_methods },
	{ "source", "Tiers", "words", "",
	  "Tiers that may be used, the preferred first; empty: all.",
	  IN(conf_source, tiers), ANY },
	{ "source", "AllowUsers", "words", "",
	  "Users whom the rule admits; with AllowGroups empty too: all.",
	  IN(conf_source, allow_users), ANY },
	{ "source", "AllowGroups", "words", "",
	  "Groups whose members the rule admits, in addition to AllowUsers.",
	  IN(conf_source, allow_groups), ANY },
	{ "source", "DenyUsers", "words", "",
	  "Users whom the rule does not admit whatever the other two say.",
	  IN(conf_source, deny_users), ANY },
	{ "source", "MaxBytes", "size", "0",
	  "Bytes of one dataset on a node; 0: no limit of its own.",
	  IN(conf_source, max_bytes), ANY },
	{ "source", "MaxReaders", "int", "0",
	  "Operations that a job has in flight here at once, on each node; 0: as many as help, 64 at most.",
	  IN(conf_source, max_readers), 0, UINT32_MAX },
	{ "source", "MaxRate", "size", "0",
	  "Bytes a second that a job reads from here, on each node; 0: no limit.",
	  IN(conf_source, max_rate), ANY },
	{ "source", "TokenDir", "text", "",
	  "Directory of token files: each dataset that is read, of any job and node, holds one; empty: none.",
	  IN(conf_source, token_dir), ANY, conf_check_token_dir },
	{ "source", "TokenWait", "duration", "10m",
	  "How long to wait for a token; after that the source is read without one.",
	  IN(conf_source, token_wait_ms), 1000, MAX_MS },
	{ "source", "Jitter", "duration", "0",
	  "Nodes of a job, and tasks of an array, begin to read here at random moments within that time.",
	  IN(conf_source, jitter_ms), 0, MAX_MS },
	{ "source", "VisibleOn", "all|mover", "all",
	  "mover: compute nodes can't see it; `stagectl submit` has it copied first.",
	  IN(conf_source, visible_on), ANY },
	{ "source", "MoverPartition", "text", "",
	  "Partition of mover jobs; must be given with VisibleOn=mover.",
	  IN(conf_source, mover_partition), ANY },
	{ "source", "MoverTime", "duration", "4h",
	  "Time limit of a mover job.",
	  IN(conf_source, mover_time_ms), 60000, MAX_MS },
	{ "source", "Checksum", "no|required", "no",
	  "required: a dataset must come with verify=sha256:DIGEST.",
	  IN(conf_source, checksum_required), ANY },
	{ "source", "Networks", "words", "",
	  "Networks of servers that are not public and may be used: 10.0.0.0/8, fd00::/8.",
	  IN(conf_source, networks), ANY, conf_check_networks },
	{ "source", "Proxy", "text", "",
	  "Proxy for addresses, http://HOST:PORT; empty: none.",
	  IN(conf_source, proxy), ANY, conf_check_proxy },
	{ "source", "CaFile", "text", "",
	  "File with the certificates that https:// trusts; empty: the system's.",
	  IN(conf_source, ca_file), ANY, conf_check_ca_file },
	{ "source", "Endpoint", "text", "",
	  "Address of the S3 server, http[s]://HOST[:PORT]; empty: Amazon's.",
	  IN(conf_source, endpoint), ANY, conf_check_endpoint },
	{ "source", "Region", "text", "",
	  "Region of the S3 server; empty: us-east-1.",
	  IN(conf_source, region), ANY },
	{ "source", "Credentials", "anonymous|user", "user",
	  "user: S3 requests are signed with the user's keys.",
	  IN(conf_source, credentials_user), ANY },

	{ "tier", "Kind", "memory|disk|shared", "disk",
	  "memory of the node, its disk, or a file system that the job's nodes share (shm: memory).",
	  IN(conf_tier, kind), ANY },
	{ "tier", "Path", "text", "",
	  "Directory of the tier, with %u %g %j %a %N; of memory the tmpfs for what MaxKeep= keeps.",
	  IN(conf_tier, path), ANY, conf_check_tier_path },
	{ "tier", "Quota", "size", "0",
	  "Bytes that a job may have in this tier on a node; 0: no limit of its own.",
	  IN(conf_tier, quota), ANY },
	{ "tier", "RequireGres", "text", "",
	  "Only jobs that asked for this generic resource (--gres) may use the tier.",
	  IN(conf_tier, require_gres), ANY },
	{ "tier", "Provided", "no|site", "no",
	  "site: the site makes and removes the directory for each job; it is never removed here.",
	  IN(conf_tier, provided_by_site), ANY },
	{ "tier", "MaxKeep", "duration", "0",
	  "How long keep= may leave a dataset on the node after its last job; 0: nothing is kept.",
	  IN(conf_tier, max_keep_ms), TIME },

	{ "dataset", "Source", "text", "",
	  "Path or address that users get as @NAME (must be given).",
	  IN(conf_dataset, source), ANY, conf_check_dataset_source },
	{ "dataset", "Method", "auto|copy|extract|mount|link", "auto",
	  "Method if the user gives none.",
	  IN(conf_dataset, method), ANY },
	{ "dataset", "Sha256", "text", "",
	  "Digest of the file, checked if the user asks for no other verify=.",
	  IN(conf_dataset, sha256), ANY, conf_check_sha256 },
	{ "dataset", "Description", "text", "",
	  "A line for stagectl list --site.",
	  IN(conf_dataset, description), ANY },
};
/* clang-format on */

#define N_KEYS ARRAY_SIZE(keys)
#define N_SECTIONS ARRAY_SIZE(sections)

const struct conf_key *conf_get_keys(size_t *n_keysp)
{
	*n_keysp = N_KEYS;
	return keys;
}

const struct conf_section *conf_find_section(const char *name, size_t n)
{
	for (size_t i = 0; i < N_SECTIONS; i++)
		if (strlen(sections[i].name) == n && strutil_begin(name, sections[i].name))
			return &sections[i];
	return NULL;
}

void conf_list_sections(char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "known are ");

	for (size_t i = 0; i < N_SECTIONS && n < size; i++) {
		const char *before = i + 1 == N_SECTIONS ? " and " : ", ";

		n += (size_t)snprintf(buf + n, size - n, "%s%s%s", i == 0 ? "" : before,
				      sections[i].name, sections[i].named ? " NAME" : "");
	}
}

const char *conf_nearest_section(const char *name)
{
	const char *names[N_SECTIONS + 1] = { NULL };

	for (size_t i = 0; i < N_SECTIONS; i++)
		names[i] = sections[i].name;
	return strutil_nearest(name, names);
}

const struct conf_key *conf_find_key(const struct conf_section *section, const char *name)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].section, section->name) && strutil_equal(keys[i].name, name))
			return &keys[i];
	return NULL;
}

const char *conf_nearest_key(const struct conf_section *section, const char *name)
{
	const char *names[N_KEYS + 1] = { NULL };
	size_t n = 0;

	for (size_t i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].section, section->name))
			names[n++] = keys[i].name;
	return strutil_nearest(name, names);
}

int conf_init_values(void *base, const struct conf_section *section)
{
	int r;

	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].section, section->name))
			continue;
		r = conf_set_value(base, &keys[i], "", NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

void conf_free_values(void *base, const struct conf_section *section)
{
	char **field;

	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].section, section->name) ||
		    (strcmp(keys[i].type, "text") && strcmp(keys[i].type, "words")))
			continue;
		field = (char **)((char *)base + keys[i].offset);
		free(*field);
		*field = NULL;
	}
}

int conf_set_defaults(struct conf *conf)
{
	int r;

	for (size_t i = 0; i < N_SECTIONS; i++) {
		if (sections[i].named)
			continue;
		r = conf_init_values(conf, &sections[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Returns the array of a named section, whatever the type of its items. */
static char *get_array(const struct conf *conf, const struct conf_section *section, size_t *np)
{
	char *array;

	memcpy(&array, (const char *)conf + section->array, sizeof(array));
	memcpy(np, (const char *)conf + section->count, sizeof(*np));
	return array;
}

static void set_array(struct conf *conf, const struct conf_section *section, char *array, size_t n)
{
	memcpy((char *)conf + section->array, &array, sizeof(array));
	memcpy((char *)conf + section->count, &n, sizeof(n));
}

void *conf_section_base(struct conf *conf, const struct conf_section *section, size_t index)
{
	size_t n;

	return section->named ? get_array(conf, section, &n) + index * section->item_size
			      : (void *)conf;
}

bool conf_find_item(const struct conf *conf, const struct conf_section *section, const char *name,
		    size_t *indexp)
{
	const char *array;
	size_t n;

	array = get_array(conf, section, &n);
	for (size_t i = 0; i < n; i++)
		if (strutil_equal(*(char *const *)(array + i * section->item_size), name)) {
			*indexp = i;
			return true;
		}
	return false;
}

int conf_add_item(struct conf *conf, const struct conf_section *section, const char *name)
{
	char *array, *bigger, *item;
	size_t n;
	int r;

	array = get_array(conf, section, &n);
	bigger = realloc(array, (n + 1) * section->item_size);
	if (!bigger)
		return -ENOMEM;
	array = bigger;
	item = array + n * section->item_size;
	memset(item, 0, section->item_size);
	set_array(conf, section, array, n + 1); /* a failure below leaves a partial item, which
						 * conf_free() frees */
	r = conf_init_values(item, section);
	if (r < 0)
		return r;
	*(char **)item = strdup(name);
	return *(char **)item ? 0 : -ENOMEM;
}

void conf_free_items(struct conf *conf)
{
	char *array, *item;
	size_t n;

	for (size_t i = 0; i < N_SECTIONS; i++) {
		const struct conf_section *s = &sections[i];

		if (!s->named) {
			conf_free_values(conf, s);
			continue;
		}
		array = get_array(conf, s, &n);
		for (size_t k = 0; k < n; k++) {
			item = array + k * s->item_size;
			conf_free_values(item, s);
			free(*(char **)item);
		}
		free(array);
	}
}

void conf_print_defaults(FILE *f)
{
	for (size_t i = 0; i < N_SECTIONS; i++) {
		/* a named section is only an example: it cannot be loaded without its required
		 * keys */
		const char *mark = sections[i].named ? "#" : "";

		fprintf(f, "%s%s[%s%s]\n", i ? "\n" : "", mark, sections[i].name,
			sections[i].named ? " NAME" : "");
		for (size_t k = 0; k < N_KEYS; k++)
			if (!strcmp(keys[k].section, sections[i].name))
				fprintf(f, "# %s\n%s%s=%s\n", keys[k].doc, mark, keys[k].name,
					keys[k].dflt);
	}
}
