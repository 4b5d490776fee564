#include "client/mover-look.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/cmd.h"
#include "client/submit-copy.h"
#include "client/submit-script.h"
#include "client/table.h"
#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

#define SQUEUE_MS 60000
#define CHECK_MS 30000

/* ---- movers ---- */

static bool has_word(const char *name, const char *key)
{
	const char *p = strstr(name, key);

	return p && p > name && p[-1] == '-' && (p[strlen(key)] == '-' || !p[strlen(key)]);
}

static bool read_line(struct mover_entry *e, char *line)
{
	const char **fields[] = { &e->state, &e->elapsed, &e->limit, &e->partition, &e->reason };
	char *p = strchr(line, '|');

	if (!p)
		return false;
	*p++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		*fields[i] = p;
		p = strchr(p, '|');
		if (!p)
			return false;
		*p++ = '\0';
	}
	e->name = p;
	return !strncmp(p, SUBMIT_JOB_NAME, strlen(SUBMIT_JOB_NAME)) &&
	       parse_uint32(line, &e->id) == 0;
}

static int read_lines(struct mover_list *l)
{
	char *save = NULL;
	size_t n = 1;

	for (const char *p = l->text; *p; p++)
		n += *p == '\n';
	l->items = calloc(n, sizeof(*l->items));
	if (!l->items)
		return -ENOMEM;
	for (char *line = strtok_r(l->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (read_line(&l->items[l->n_items], line))
			l->n_items++;
	return 0;
}

int mover_list_read(struct mover_list *l, struct error *err)
{
	char uid[16];
	const char *const argv[] = {
		"squeue", "-h", "-a", "-u", uid, "-t", "PD,R,S,CF", "-o", "%A|%T|%M|%l|%P|%r|%j",
		NULL,
	};
	int r;

	*l = (struct mover_list){ 0 };
	snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
	r = capture_slurm(argv, SQUEUE_MS, &l->text);
	if (r == 0)
		r = read_lines(l);
	if (r == 0)
		return 0;
	mover_list_deinit(l);
	if (r < 0)
		return error_errno(err, -r, "squeue");
	return error_set(err, EIO, "squeue does not tell which jobs there are (exit status %d)", r);
}

void mover_list_deinit(struct mover_list *l)
{
	free(l->text);
	free(l->items);
	*l = (struct mover_list){ 0 };
}

const struct mover_entry *mover_list_find(const struct mover_list *l, const char *key)
{
	for (size_t i = 0; i < l->n_items; i++)
		if (has_word(l->items[i].name, key))
			return &l->items[i];
	return NULL;
}

char *mover_entry_to_string(const struct mover_entry *e, char *buf, size_t size)
{
	if (!strcmp(e->state, "PENDING"))
		snprintf(buf, size, "pending (%s)", e->reason);
	else if (!strcmp(e->state, "RUNNING"))
		snprintf(buf, size, "running for %s of at most %s", e->elapsed, e->limit);
	else
		snprintf(buf, size, "%s", e->state);
	return buf;
}

/* ---- copies ---- */

/* Runs stage-mover. Returns its exit status and its output, or -errno. */
static int run_mover(const char *verb, const struct submit_copy *c, const char *dir, char **textp)
{
	_cleanup_(freep) char *from = NULL, *to = NULL;
	char program[4096];
	const char *argv[] = { program, verb, NULL, NULL, NULL, NULL, NULL };
	size_t n = 2;

	if (cmd_get_helper(program, sizeof(program), "stage-mover") < 0)
		return -ENOENT;
	to = strutil_printf("--dir=%s", dir);
	if (!to)
		return -ENOMEM;
	argv[n++] = to;
	if (c) {
		from = strutil_printf("--source=%s", c->source);
		if (!from)
			return -ENOMEM;
		argv[n++] = from;
		if (c->literal)
			argv[n++] = "--literal";
		if (c->follow)
			argv[n++] = "--follow";
	}
	return capture_run(argv, CHECK_MS, textp);
}

bool mover_copy_is_whole(const struct submit_copy *c, char **whyp)
{
	_cleanup_(freep) char *text = NULL;
	int r = run_mover("check", c, c->dir, &text);

	if (!whyp || r == 0)
		return r == 0;
	if (text && r > 0 && *text)
		text[strcspn(text, "\n")] = '\0';
	*whyp = r > 0 && text && *text
			? steal_ptr(text)
			: strdup(r == -ETIMEDOUT ? "looking at it takes too long here"
						 : "stage-mover can't look at it here");
	return false;
}

void mover_progress_read(struct mover_progress *p, const char *dir)
{
	_cleanup_(freep) char *text = NULL;
	char *save = NULL, *value;

	*p = (struct mover_progress){ 0 };
	if (run_mover("progress", NULL, dir, &text) != 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		value = strchr(line, ' ');
		if (!value)
			continue;
		*value++ = '\0';
		if (!strcmp(line, "bytes"))
			p->begun = parse_uint64(value, &p->bytes) == 0;
		else if (!strcmp(line, "files"))
			(void)parse_uint64(value, &p->files);
		else if (!strcmp(line, "size"))
			(void)parse_uint64(value, &p->size);
		else if (!strcmp(line, "source") && !p->source)
			p->source = strdup(value);
	}
}

void mover_progress_deinit(struct mover_progress *p)
{
	free(p->source);
	*p = (struct mover_progress){ 0 };
}

char *mover_progress_to_string(const struct mover_progress *p, char *buf, size_t size)
{
	char bytes[PARSE_SIZE_TEXT], all[PARSE_SIZE_TEXT];

	size_to_string(p->bytes, bytes);
	if (!p->begun)
		snprintf(buf, size, "nothing yet");
	else if (p->size)
		snprintf(buf, size, "%s of %s (%u %%)", bytes, size_to_string(p->size, all),
			 (unsigned)(100.0 * (double)p->bytes / (double)p->size));
	else
		snprintf(buf, size, "%s, %llu %s", bytes, (unsigned long long)p->files,
			 count_word(p->files, "file", "files"));
	return buf;
}

/* ---- all of them ---- */

static const struct table_column columns[] = { { "MOVER", true },      { "STATE", false },
					       { "PARTITION", false }, { "DONE", false },
					       { "SOURCE", false },    { "COPY", false } };

static int add_row(struct table *t, const struct mover_entry *e, const char *dir)
{
	_cleanup_(mover_progress_deinit) struct mover_progress p = { 0 };
	char id[16], state[256], done[128];
	const char *cells[] = { id, state, e->partition, done, NULL, dir };

	snprintf(id, sizeof(id), "%u", (unsigned)e->id);
	mover_entry_to_string(e, state, sizeof(state));
	if (dir)
		mover_progress_read(&p, dir);
	mover_progress_to_string(&p, done, sizeof(done));
	cells[4] = p.source;
	return table_add_row(t, cells);
}

/* Adds the copies of these movers that are in base. The name of a copy's directory ends with the
 * mover's key. */
static int add_copies(struct table *t, const struct mover_list *l, const char *base, bool *said)
{
	_cleanup_(dir_closep) DIR *d = opendir(base);
	const struct dirent *e;
	const char *key;
	int r = 0;

	while (d && r == 0 && (e = readdir(d))) {
		key = strrchr(e->d_name, '-');
		if (!key || strlen(key + 1) != SUBMIT_KEY_SIZE - 1)
			continue;
		for (size_t i = 0; i < l->n_items && r == 0; i++) {
			_cleanup_(freep) char *dir = NULL;

			if (!has_word(l->items[i].name, key + 1))
				continue;
			dir = path_join(base, e->d_name);
			r = dir ? add_row(t, &l->items[i], dir) : -ENOMEM;
			said[i] = true;
		}
	}
	return r;
}

static int fill(struct table *t, const struct mover_list *l, struct error *err)
{
	_cleanup_(freep) bool *said = calloc(l->n_items + 1, sizeof(*said));
	_cleanup_(conf_freep) struct conf *conf = NULL;
	char **bases = NULL;
	size_t n_bases = 0;
	int r;

	if (!said)
		return error_set(err, ENOMEM, "out of memory");
	if (conf_load(&conf, cmd_get_conf(), NULL) == 0)
		submit_copies_get_bases(conf, &bases, &n_bases);
	r = 0;
	for (size_t i = 0; i < n_bases && r == 0; i++)
		r = add_copies(t, l, bases[i], said);
	for (size_t i = 0; i < l->n_items && r == 0; i++)
		if (!said[i])
			r = add_row(t, &l->items[i], NULL);
	for (size_t i = 0; i < n_bases; i++)
		free(bases[i]);
	free(bases);
	return r < 0 ? error_errno(err, -r, "list the movers") : 0;
}

int mover_look_print(struct error *err)
{
	_cleanup_(mover_list_deinit) struct mover_list l = { 0 };
	_cleanup_(table_freep) struct table *t = NULL;
	int r = mover_list_read(&l, err);

	if (r == 0 && l.n_items > 0)
		r = table_new(&t, columns, ARRAY_SIZE(columns));
	if (r == 0 && t)
		r = fill(t, &l, err);
	if (r < 0)
		return r;
	if (t)
		table_print(t, stdout);
	return (int)l.n_items;
}
