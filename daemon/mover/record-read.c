#include "daemon/mover/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "daemon/mover/place.h"

#define MIN_BUCKETS 1024
#define MAX_PIECES (1u << 24)

/* ---- the table ---- */

static size_t get_bucket(const struct record_table *t, const char *path, size_t n_buckets)
{
	return siphash(&t->key, path, strlen(path)) % n_buckets;
}

void record_table_free(struct record_table *t)
{
	struct record_entry *e, *below;

	if (!t)
		return;
	for (e = t->last; e; e = below) {
		below = e->below;
		free(e->sums);
		free(e);
	}
	free(t->buckets);
	free(t->source);
	free(t);
}

static int grow(struct record_table *t)
{
	size_t n = t->n_buckets ? 2 * t->n_buckets : MIN_BUCKETS;
	struct record_entry **buckets = calloc(n, sizeof(*buckets)), **b;

	if (!buckets)
		return -ENOMEM;
	/* begin with the last line, because the latest line of a path must be found first in its
	 * bucket */
	for (struct record_entry *e = t->last; e; e = e->below) {
		for (b = &buckets[get_bucket(t, e->path, n)]; *b; b = &(*b)->next)
			;
		e->next = NULL;
		*b = e;
	}
	free(t->buckets);
	t->buckets = buckets;
	t->n_buckets = n;
	return 0;
}

static struct record_entry *record_table_find(const struct record_table *t, const char *path)
{
	struct record_entry *e = t->n_buckets ? t->buckets[get_bucket(t, path, t->n_buckets)]
					      : NULL;

	while (e && strcmp(e->path, path))
		e = e->next;
	return e;
}

const struct record_entry *record_find(const struct record_table *t, const char *path)
{
	return record_table_find(t, path);
}

bool record_entry_is(const struct record_entry *e, const struct stat *st)
{
	return e->size == (uint64_t)st->st_size && e->seconds == st->st_mtim.tv_sec &&
	       e->nanoseconds == (uint32_t)st->st_mtim.tv_nsec;
}

bool record_entry_has_mode(const struct record_entry *e, const struct stat *st)
{
	return e->mode == (st->st_mode & RECORD_MODE);
}

static struct record_entry *add_entry(struct record_table *t, const struct record_entry *like,
				      const char *path)
{
	struct record_entry *e, **b;

	if (t->n_entries >= t->n_buckets && grow(t) < 0)
		return NULL;
	e = malloc(sizeof(*e) + strlen(path) + 1);
	if (!e)
		return NULL;
	*e = *like;
	strcpy(e->path, path);
	b = &t->buckets[get_bucket(t, path, t->n_buckets)];
	e->next = *b;
	*b = e;
	e->below = t->last;
	t->last = e;
	t->n_entries++;
	return e;
}

/* ---- lines ---- */

/* Cuts off and returns the next word of *linep. NULL: there is none. */
static char *take_word(char **linep)
{
	char *word = *linep, *end;

	if (!word || !*word)
		return NULL;
	end = strchr(word, ' ');
	if (end)
		*end++ = '\0';
	*linep = end;
	return word;
}

static int take_number(char **linep, uint64_t *np)
{
	const char *word = take_word(linep);

	return word ? parse_uint64(word, np) : -EINVAL;
}

static int take_time(char **linep, struct record_entry *e)
{
	char *word = take_word(linep), *dot = word ? strchr(word, '.') : NULL;
	bool before = word && *word == '-';
	uint64_t seconds;

	if (!dot)
		return -EINVAL;
	*dot = '\0';
	if (parse_uint64(word + before, &seconds) < 0 || seconds > INT64_MAX ||
	    parse_uint32(dot + 1, &e->nanoseconds) < 0)
		return -EINVAL;
	e->seconds = before ? -(int64_t)seconds : (int64_t)seconds;
	return 0;
}

static int take_mode(char **linep, struct record_entry *e)
{
	const char *word = take_word(linep);
	size_t n = word ? strlen(word) : 0;

	if (n == 0 || n > 3 || strspn(word, "01234567") < n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		e->mode = e->mode * 8 + (mode_t)(word[i] - '0');
	return 0;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the rest of the line, decoded in place. NULL: it is malformed. */
static char *take_path(char **linep)
{
	char *path = take_word(linep), *out = path;

	if (!path || *linep)
		return NULL;
	for (const char *p = path; *p; p++) {
		int high, low;

		if (*p != '%') {
			*out++ = *p;
			continue;
		}
		high = hex(p[1]);
		low = high < 0 ? -1 : hex(p[2]);
		if (low < 0 || high + low == 0)
			return NULL;
		*out++ = (char)(16 * high + low);
		p += 2;
	}
	*out = '\0';
	return path;
}

static size_t count_pieces(uint64_t size)
{
	return (size_t)((size + RECORD_PIECE - 1) / RECORD_PIECE);
}

/* Copies the text if it looks like a checksum; else returns false. */
static bool read_sum(struct record_sum *sum, const char *text, size_t n)
{
	if (n == 0 || n >= sizeof(sum->text) || strspn(text, "0123456789abcdef") < n)
		return false;
	memcpy(sum->text, text, n);
	sum->text[n] = '\0';
	return true;
}

/* Reads "-" for an empty file, else one checksum for each piece. */
static int take_sums(char **linep, struct record_entry *e)
{
	char *word = take_word(linep);

	e->n_sums = count_pieces(e->size);
	if (!word || e->n_sums > MAX_PIECES || (e->n_sums == 0) != !strcmp(word, "-"))
		return -EINVAL;
	if (e->n_sums == 0)
		return 0;
	e->sums = calloc(e->n_sums, sizeof(*e->sums));
	for (size_t i = 0; e->sums && i < e->n_sums; i++) {
		size_t n = strcspn(word, ",");

		if (!read_sum(&e->sums[i], word, n) || !word[n] != (i + 1 == e->n_sums))
			return -EINVAL;
		word += n + 1;
	}
	return e->sums ? 0 : -ENOMEM;
}

static int read_piece(struct record_table *t, char **linep, struct record_entry *e)
{
	struct record_entry *known;
	struct record_sum sum;
	uint64_t index;
	char *word, *path;

	if (take_number(linep, &index) < 0 || !(word = take_word(linep)) ||
	    !read_sum(&sum, word, strlen(word)) || !(path = take_path(linep)))
		return -EINVAL;
	e->n_sums = count_pieces(e->size);
	if (index >= e->n_sums || e->n_sums > MAX_PIECES)
		return -EINVAL;
	known = record_table_find(t, path);
	if (!known || known->size != e->size || known->seconds != e->seconds ||
	    known->nanoseconds != e->nanoseconds || known->n_sums != e->n_sums) {
		e->sums = calloc(e->n_sums, sizeof(*e->sums));
		known = e->sums ? add_entry(t, e, path) : NULL;
		if (known)
			e->sums = NULL;
	}
	if (!known)
		return -ENOMEM;
	known->sums[index] = sum;
	return 0;
}

static int read_thing(struct record_table *t, char *line, struct record_entry *e)
{
	bool has_size = e->type != 'd' && e->type != 'l';
	char *path;
	int r;

	if ((has_size && take_number(&line, &e->size) < 0) || take_time(&line, e) < 0)
		return -EINVAL;
	if (e->type == 'p')
		return read_piece(t, &line, e);
	if (e->type != 'l' && take_mode(&line, e) < 0)
		return -EINVAL;
	r = e->type == 'f' ? take_sums(&line, e) : 0;
	if (r < 0)
		return r;
	path = take_path(&line);
	if (!path)
		return -EINVAL;
	if (!add_entry(t, e, path))
		return -ENOMEM;
	e->sums = NULL;
	return 0;
}

static int read_source(struct record_table *t, char *line)
{
	const char *kind = take_word(&line), *path = take_path(&line);

	if (!kind || !*kind || !path || strlen(kind) >= sizeof(t->kind))
		return -EINVAL;
	strcpy(t->kind, kind);
	free(t->source);
	t->source = strdup(path);
	return t->source ? 0 : -ENOMEM;
}

static bool is_first_line(const char *line)
{
	static const char first[] = "stage-data-copy 2 ";

	return !strncmp(line, first, sizeof(first) - 1) &&
	       !strcmp(line + sizeof(first) - 1, sum_name);
}

/* Reads the last line of a manifest, whose first line is_first_line() has accepted. */
static int read_end(struct record_table *t, char *line, size_t n_lines)
{
	uint64_t n;

	if (take_number(&line, &n) < 0 || line || n != n_lines)
		return -EINVAL;
	t->whole = true;
	return 0;
}

static int read_line(struct record_table *t, char *line, size_t n_lines)
{
	struct record_entry e = { .type = line[0] };
	int r;

	t->whole = false; /* until an end line says that it is complete */
	if (n_lines == 0 && is_first_line(line))
		return 0;
	if (line[0] == '\0' || line[1] != ' ')
		return -EINVAL;
	switch (line[0]) {
	case 's':
		return read_source(t, line + 2);
	case 'e':
		return read_end(t, line + 2, n_lines);
	case 'd':
	case 'f':
	case 'h':
	case 'l':
	case 'p':
		r = read_thing(t, line + 2, &e);
		free(e.sums);
		return r;
	}
	return -EINVAL;
}

static int read_all(struct record_table *t, FILE *f, size_t max_lines)
{
	_cleanup_(freep) char *line = NULL;
	size_t size = 0, n_lines = 0;
	bool bad = false;
	ssize_t n;
	int r;

	while ((n = getline(&line, &size, f)) > 0) {
		if (max_lines && n_lines == max_lines)
			return -E2BIG;
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		r = strlen(line) + 1 < (size_t)n ? -EINVAL : read_line(t, line, n_lines++);
		if (r == -ENOMEM)
			return r;
		bad |= r < 0;
	}
	t->whole &= !bad && t->source;
	return ferror(f) ? -EIO : 0;
}

int record_load(struct record_table **tp, int dirfd, const char *name, size_t max_lines,
		struct error *err)
{
	_cleanup_(record_table_freep) struct record_table *t = calloc(1, sizeof(*t));
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(file_closep) FILE *f = NULL;
	int r;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	r = siphash_key_init(&t->key);
	if (r < 0)
		return error_errno(err, -r, "make a key for the table of files");
	fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return error_errno(err, errno, "open %s", name);
	if (fd >= 0 && !(f = fdopen(fd, "r")))
		return error_errno(err, errno, "open %s", name);
	if (f)
		(void)steal_fd(&fd);
	r = f ? read_all(t, f, max_lines) : 0;
	if (r < 0)
		return error_errno(err, -r, "read %s", name);
	*tp = steal_ptr(t);
	return 0;
}

/* ---- progress of a copy ---- */

/* Returns the bytes of the pieces that are recorded. The last piece may be shorter. */
static uint64_t get_done_bytes(const struct record_entry *e)
{
	uint64_t size = 0;

	for (size_t i = 0; i < e->n_sums; i++)
		if (e->sums[i].text[0])
			size += i + 1 < e->n_sums ? RECORD_PIECE : e->size - i * RECORD_PIECE;
	return size;
}

/* Counts the latest line of each path. A mover that resumes a copy writes lines for existing files
 * again. */
static void count_entries(struct record_progress *p, const struct record_table *t)
{
	for (const struct record_entry *e = t->last; e; e = e->below) {
		if (record_find(t, e->path) != e)
			continue;
		p->files += e->type != 'd' && e->type != 'p';
		if (e->type == 'f')
			p->bytes += e->size;
		else if (e->type == 'p')
			p->bytes += get_done_bytes(e);
		if ((e->type == 'f' || e->type == 'p') && !strcmp(e->path, "."))
			p->size = e->size;
	}
}

int record_read_progress(struct record_progress *p, const char *dir, struct error *err)
{
	_cleanup_(record_table_freep) struct record_table *t = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	*p = (struct record_progress){ 0 };
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", dir);
	if (faccessat(fd, PLACE_JOURNAL, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = record_load(&t, fd, PLACE_JOURNAL, 0, err);
	if (r < 0)
		return r;
	count_entries(p, t);
	p->source = steal_ptr(t->source);
	return 1;
}
