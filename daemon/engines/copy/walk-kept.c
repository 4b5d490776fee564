/*
 * The entries of a directory are packed in a buffer that grows by doubling. When the memory limit
 * is reached, the directory that needs more is given up with all its entries, and directories that
 * are begun later are not kept. So small directories are kept, and of a huge one nothing is. If
 * operations are slow, the content of small files is read when the file is examined, because
 * opening them again later would be another operation for each name. An entry takes 24 bytes and
 * its name: 16 MiB are enough for 400,000 files with names of a dozen letters.
 */
#include "daemon/engines/copy/walk-kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-concurrency.h"
#include "daemon/engines/copy/walk.h"

#define KEPT_FIRST_SIZE 512
#define KEPT_ALIGN 8
#define KEPT_LINKED 1
#define KEPT_SPARSE 2
#define KEPT_DATA 4 /* a pointer to it follows the name */
#define KEPT_SAMPLE 8

struct kept_entry {
	union {
		uint64_t size;
		struct walk_kept_dir *child;
	} u;
	int64_t mtime;
	uint32_t mtime_ns;
	uint16_t mode;
	uint8_t flags;
	uint8_t name_size; /* size without the NUL */
	char name[];
};

struct walk_kept_dir {
	struct walk_kept *kept;
	struct walk_kept_dir *next; /* next in the list of all directories */
	struct timespec mtime;
	ino_t ino;
	bool given_up, complete;
	char *data;
	size_t size, max_size;
};

struct walk_kept {
	pthread_mutex_t lock;
	size_t size, max_size, data_size;
	uint64_t n_files, n_small, n_data;
	bool given_up; /* entries of some directory were not kept */
	struct walk_kept_dir *all;
	struct walk_kept_dir *root;
};

/* Returns the size of the entry. flags and name_size must be set. */
static size_t entry_size(const struct kept_entry *e)
{
	size_t size = sizeof(*e) + e->name_size + 1U;

	size = (size + KEPT_ALIGN - 1) / KEPT_ALIGN * KEPT_ALIGN;
	return e->flags & KEPT_DATA ? size + sizeof(char *) : size;
}

/* Returns the place of the pointer in an entry with KEPT_DATA. */
static char **data_of(const struct kept_entry *e)
{
	return (char **)((char *)e + entry_size(e) - sizeof(char *));
}

static void free_entries(struct walk_kept_dir *d)
{
	for (size_t pos = 0; pos < d->size;) {
		struct kept_entry *e = (void *)(d->data + pos);

		if (e->flags & KEPT_DATA)
			free(*data_of(e));
		pos += entry_size(e);
	}
	free(d->data);
}

/* Makes a directory. The lock must be held. */
static struct walk_kept_dir *dir_new(struct walk_kept *k)
{
	struct walk_kept_dir *d;

	if (k->size + sizeof(*d) > k->max_size)
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	k->size += sizeof(*d);
	d->kept = k;
	d->next = k->all;
	k->all = d;
	return d;
}

int walk_kept_new(struct walk_kept **kp, size_t max_size)
{
	struct walk_kept *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	pthread_mutex_init(&k->lock, NULL);
	k->max_size = max_size;
	k->root = dir_new(k);
	*kp = k;
	return 0;
}

void walk_kept_free(struct walk_kept *k)
{
	struct walk_kept_dir *d, *next;

	if (!k)
		return;
	for (d = k->all; d; d = next) {
		next = d->next;
		free_entries(d);
		free(d);
	}
	pthread_mutex_destroy(&k->lock);
	free(k);
}

struct walk_kept_dir *walk_kept_get_root(struct walk_kept *k)
{
	return k->root;
}

static void give_up(struct walk_kept_dir *d)
{
	d->kept->size -= d->max_size;
	free_entries(d);
	d->data = NULL;
	d->size = d->max_size = 0;
	d->given_up = d->kept->given_up = true;
}

static bool make_room(struct walk_kept_dir *d, size_t size)
{
	size_t want = d->max_size ? d->max_size : KEPT_FIRST_SIZE;
	char *data;

	while (want < d->size + size)
		want *= 2;
	if (want == d->max_size)
		return true;
	if (d->kept->size - d->max_size + want > d->kept->max_size)
		return false;
	data = realloc(d->data, want);
	if (!data)
		return false;
	d->kept->size += want - d->max_size;
	d->data = data;
	d->max_size = want;
	return true;
}

/* Adds an entry. The lock must be held. NULL: nothing is kept of d. */
static struct kept_entry *walk_kept_add(struct walk_kept_dir *d, const char *name, unsigned flags)
{
	size_t n = strlen(name);
	struct kept_entry *e, head = { .flags = (uint8_t)flags, .name_size = (uint8_t)n };

	if (d->given_up)
		return NULL;
	if (n > UINT8_MAX || !make_room(d, entry_size(&head))) {
		give_up(d);
		return NULL;
	}
	e = (struct kept_entry *)(void *)(d->data + d->size);
	d->size += entry_size(&head);
	*e = head;
	memcpy(e->name, name, n + 1);
	return e;
}

struct walk_kept_dir *walk_kept_add_dir(struct walk_kept_dir *d, const char *name)
{
	struct walk_kept_dir *child = NULL;
	struct kept_entry *e;

	if (!d)
		return NULL;
	pthread_mutex_lock(&d->kept->lock);
	e = walk_kept_add(d, name, 0);
	if (e) {
		e->mode = S_IFDIR;
		e->u.child = child = dir_new(d->kept);
		d->kept->given_up |= !child;
	}
	pthread_mutex_unlock(&d->kept->lock);
	return child;
}

static unsigned get_flags(const struct stat *st, const char *data)
{
	return (st->st_nlink > 1 ? KEPT_LINKED : 0) | (copy_file_is_sparse(st) ? KEPT_SPARSE : 0) |
	       (data ? KEPT_DATA : 0);
}

/* Adds an entry. The lock must be held. Sets *datap to NULL if the content is kept. */
static void add_entry(struct walk_kept_dir *d, const char *name, const struct stat *st,
		      char **datap)
{
	struct kept_entry *e = walk_kept_add(d, name, get_flags(st, *datap));

	d->kept->n_files++;
	if (S_ISREG(st->st_mode) && st->st_size <= WALK_KEPT_SMALL)
		d->kept->n_small++;
	if (!e)
		return;
	e->mode = (uint16_t)st->st_mode;
	e->u.size = (uint64_t)st->st_size;
	e->mtime = st->st_mtim.tv_sec;
	e->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	if (*datap) {
		*data_of(e) = steal_ptr(*datap);
		d->kept->data_size += (size_t)st->st_size;
		d->kept->n_data++;
	}
}

void walk_kept_add_entry(struct walk_kept_dir *d, const char *name, const struct stat *st,
			 char *data)
{
	if (d) {
		pthread_mutex_lock(&d->kept->lock);
		add_entry(d, name, st, &data);
		pthread_mutex_unlock(&d->kept->lock);
	}
	free(data);
}

bool walk_kept_wants_data(struct walk_kept_dir *d)
{
	struct walk_kept *k = d ? d->kept : NULL;
	bool wants;

	if (!k)
		return false;
	pthread_mutex_lock(&k->lock);
	wants = !d->given_up && k->n_files >= KEPT_SAMPLE && k->n_small >= k->n_files / 8 * 7 &&
		k->data_size + (size_t)WALK_KEPT_SMALL * COPY_CONCURRENCY_MAX <= WALK_KEPT_MAX_DATA;
	pthread_mutex_unlock(&k->lock);
	return wants;
}

uint64_t walk_kept_get_unread(const struct walk_kept *k)
{
	return k->given_up ? UINT64_MAX : k->n_files - k->n_data;
}

void walk_kept_begin(struct walk_kept_dir *d, const struct stat *st)
{
	if (!d)
		return;
	d->mtime = st->st_mtim;
	d->ino = st->st_ino;
}

void walk_kept_complete(struct walk_kept_dir *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->kept->lock);
	d->complete = !d->given_up;
	pthread_mutex_unlock(&d->kept->lock);
}

void walk_kept_give_up(struct walk_kept_dir *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->kept->lock);
	give_up(d);
	pthread_mutex_unlock(&d->kept->lock);
}

bool walk_kept_is_good(const struct walk_kept_dir *d, const struct stat *now)
{
	return d && d->complete && d->ino == now->st_ino &&
	       d->mtime.tv_sec == now->st_mtim.tv_sec && d->mtime.tv_nsec == now->st_mtim.tv_nsec;
}

bool walk_kept_next(const struct walk_kept_dir *d, size_t *posp, struct walk_entry *entry,
		    struct walk_kept_dir **childp)
{
	const struct kept_entry *e;
	struct stat *st = &entry->st;

	if (*posp >= d->size)
		return false;
	e = (const void *)(d->data + *posp);
	*posp += entry_size(e);
	*entry = (struct walk_entry){ .name = e->name };
	st->st_mode = e->mode;
	st->st_nlink = e->flags & KEPT_LINKED ? 2 : 1;
	if (S_ISDIR(e->mode)) {
		*childp = e->u.child;
		return true;
	}
	st->st_size = (off_t)e->u.size;
	st->st_mtim = (struct timespec){ .tv_sec = e->mtime, .tv_nsec = e->mtime_ns };
	st->st_blocks = e->flags & KEPT_SPARSE ? 0 : (st->st_size + 511) / 512;
	entry->data = e->flags & KEPT_DATA ? *data_of(e) : NULL;
	return true;
}
