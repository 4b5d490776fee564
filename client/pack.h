/*
 * pack: many small files into few big ones: a squashfs image, or tar shards.
 *
 * Results are written under a temporary name and renamed when they are complete, so OUT is always
 * complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct error;
struct progress;

struct pack {
	const char *dir;     /* absolute, resolved */
	const char *out;     /* as given */
	uint64_t shard_size; /* 0: a squashfs image */
	struct progress *progress;
	bool locked; /* nobody else makes the same OUT: "OUT.tmp" is ours alone */
};

/* Both leave nothing behind when they fail. Signals INT and TERM end them: -EINTR. */
int pack_squashfs(const struct pack *p, struct error *err);
int pack_shards(const struct pack *p, struct error *err);

/* Are there shards of that name already? The first one counts: it is renamed last. */
bool pack_shards_exist(const char *out);

/* ---- links of a directory that lead out of it ---- */

struct pack_links {
	uint64_t n;
	char first[1024]; /* of them, with its text */
};

/* What can't be read is passed over. dir: absolute, resolved. */
void pack_links_count(struct pack_links *links, const char *dir);

/* ---- the files of a directory, for shards ---- */

struct pack_file {
	char *path;   /* relative to the directory */
	size_t n_key; /* so many bytes of it are the key: up to the first dot of the last part */
	uint64_t size;
	time_t mtime;
	unsigned mode;
};

struct pack_list {
	struct pack_file *files;
	size_t n_files, n_allocated;
	uint64_t size;	    /* sum */
	uint64_t n_skipped; /* what is neither a file nor a directory, dangling links, links to
			     * directories */
};

/* Walks dirfd (kept by the caller) and sorts by key, then by name. Links to files count as files.
 */
int pack_list_read(struct pack_list *l, int dirfd, struct error *err);
void pack_list_deinit(struct pack_list *l);

/* Number of files from i on that have the same key. */
size_t pack_list_get_group(const struct pack_list *l, size_t i);
