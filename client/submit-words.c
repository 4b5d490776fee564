#include "client/submit-words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/dataset/dataset.h"
#include "common/slurm/sbatch-words.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define MAX_SCRIPT (4 * 1024 * 1024) /* the default limit of Slurm */

/* ---- options ---- */

/* Long options may be shortened to a unique prefix; least: its minimum length. */
static bool is_option(const struct sbatch_option *o, const char *name, size_t least, char letter)
{
	size_t n = strlen(o->name);

	if (n == 1)
		return letter && o->name[0] == letter && o->word[1] != '-';
	return n >= least && !strncmp(o->name, name, n);
}

static void add_value(struct submit_values *v, const char *value)
{
	if (v->n_values == SUBMIT_MAX_VALUES)
		v->too_many = true;
	else if (value && (v->values[v->n_values] = strdup(value)))
		v->n_values++;
}

/* What one source gives: the command line, the environment or the script. As with sbatch, the last
 * value of a source counts, and the first source that gives one. */
struct given {
	struct submit_words *w;
	const char **starts; /* of the words of the command line in the joined text */
	char *dependency, *account;
};

static void replace(char **textp, const char *value)
{
	free(*textp);
	*textp = value ? strdup(value) : NULL;
}

static void take_unless_given(char **textp, char **valuep)
{
	if (!*textp)
		*textp = steal_ptr(*valuep);
	free(*valuep);
	*valuep = NULL;
}

static void end_source(struct given *g)
{
	take_unless_given(&g->w->dependency, &g->dependency);
	take_unless_given(&g->w->account, &g->account);
}

static void mark(struct given *c, const struct sbatch_option *o, char as)
{
	for (size_t i = 0; i < c->w->n_args; i++)
		if (c->starts[i] == o->word) {
			c->w->marks[i] = as;
			if (o->takes_next && i + 1 < c->w->n_args)
				c->w->marks[i + 1] = as;
		}
}

/* Handles options that mean the same on the command line and in the script. */
static void take_common(struct given *g, const struct sbatch_option *o)
{
	if (is_option(o, "account", 4, 'A'))
		replace(&g->account, o->value);
	else if (is_option(o, "dependency", 3, 'd'))
		replace(&g->dependency, o->value);
	else if (is_option(o, "clusters", 4, 'M'))
		g->w->other_cluster = true;
	else if (is_option(o, "test-only", 4, '\0'))
		g->w->test_only = true;
	else if (is_option(o, "wrap", 2, '\0'))
		g->w->has_script = true;
}

static void take_word(void *arg, const struct sbatch_option *o)
{
	struct given *c = arg;

	take_common(c, o);
	if (is_option(o, "stage-data", 7, '\0')) {
		add_value(&c->w->command_line, o->value);
		mark(c, o, SUBMIT_WORD_DATA);
	} else if (is_option(o, "dependency", 3, 'd') ||
		   is_option(o, "kill-on-invalid-dep", 4, '\0')) {
		mark(c, o, SUBMIT_WORD_DEPENDENCY);
	} else if (is_option(o, "help", 2, 'h') || is_option(o, "usage", 3, '\0') ||
		   is_option(o, "version", 4, 'V')) {
		c->w->only_asks = true;
	}
}

static void take_environment(struct submit_words *w)
{
	const char *clusters = getenv("SBATCH_CLUSTERS");
	struct given g = { .w = w };

	replace(&g.account, getenv("SBATCH_ACCOUNT"));
	end_source(&g);
	/* Sites with several clusters set SLURM_CLUSTERS to the name of this one. */
	w->other_cluster |= clusters && *clusters;
}

static void take_line(void *arg, const struct sbatch_option *o)
{
	struct given *g = arg;

	if (is_option(o, "stage-data", 7, '\0'))
		add_value(&g->w->script, o->value);
	else
		take_common(g, o);
}

/* ---- words ---- */

/* Joins the words into one text after an empty word. starts[i]: the beginning of word i. */
static char *join(const struct submit_words *w, const char **starts, size_t *sizep)
{
	size_t size = 1;
	char *text, *p;

	for (size_t i = 0; i < w->n_args; i++)
		size += strlen(w->argv[i]) + 1;
	text = calloc(1, size);
	p = text ? text + 1 : NULL;
	for (size_t i = 0; text && i < w->n_args; i++) {
		starts[i] = p;
		p = stpcpy(p, w->argv[i]) + 1;
	}
	*sizep = size;
	return text;
}

static int read_script(struct submit_words *w, const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_(freep) char *text = NULL;
	struct given g = { .w = w };
	struct stat st;
	size_t size;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_exit(err, STAGE_EXIT_USAGE, errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s is no file", path);
	r = fd_read_file(fd, MAX_SCRIPT, &text, &size);
	if (r < 0)
		return error_exit(err, STAGE_EXIT_USAGE, -r, "%s: %s", path, strerror(-r));
	w->is_het |= strstr(text, "\n#SBATCH hetjob") || strstr(text, "\n#SBATCH packjob");
	r = sbatch_words_read_script(text, take_line, &g);
	end_source(&g);
	return r;
}

int submit_words_read(struct submit_words *w, size_t n_args, char **argv, struct error *err)
{
	_cleanup_(freep) const char **starts = calloc(n_args + 1, sizeof(*starts));
	_cleanup_(freep) char *text = NULL;
	struct given c = { .w = w, .starts = starts };
	const char *script;
	size_t size;

	*w = (struct submit_words){ .argv = argv, .n_args = n_args };
	w->marks = calloc(n_args + 1, 1);
	text = starts ? join(w, starts, &size) : NULL;
	if (!text || !w->marks)
		return error_set(err, ENOMEM, "out of memory");
	script = sbatch_words_read(text, size, take_word, &c);
	end_source(&c);
	take_environment(w);
	if (!script || w->has_script) /* with --wrap, sbatch takes no script */
		return 0;
	w->has_script = true;
	w->is_het = !strcmp(script,
			    /* ":": the words and the script of the next component follow */
			    ":");
	if (w->is_het)
		return 0;
	return read_script(w, script, err);
}

static void free_values(struct submit_values *v)
{
	for (size_t i = 0; i < v->n_values; i++)
		free(v->values[i]);
	v->n_values = 0;
}

void submit_words_deinit(struct submit_words *w)
{
	free_values(&w->script);
	free_values(&w->command_line);
	free(w->marks);
	free(w->dependency);
	free(w->account);
}

int submit_words_merge(const struct submit_words *w, char **valuep, struct error *err)
{
	const struct submit_values *s = &w->script, *c = &w->command_line;
	_cleanup_(freep) char *base = NULL;
	const char *env = getenv("STAGE_DATA");
	int r;

	*valuep = NULL;
	if (s->too_many || c->too_many)
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL,
				  "--stage-data was given more than %d times; did the shell expand "
				  "braces? Put the value in quotes",
				  SUBMIT_MAX_VALUES);
	r = dataset_merge(&base, (const char *const *)s->values, s->n_values, &env, env && *env,
			  err);
	if (r == 0)
		r = dataset_merge(valuep, (const char *const *)&base, !!base,
				  (const char *const *)c->values, c->n_values, err);
	return r;
}

int submit_words_check_mover(const struct submit_words *w, const char *name, struct error *err)
{
	const char *why = NULL;

	if (w->is_het)
		why = "a heterogeneous job can't wait for a mover; let a job of one component move "
		      "it first";
	else if (w->other_cluster)
		why = "a mover runs on this cluster; leave out --clusters and SBATCH_CLUSTERS";
	else if (w->test_only)
		why = "with --test-only nothing is moved; leave it out";
	else if (w->dependency && strchr(w->dependency, '?'))
		why = "a dependency with '?' can't be joined with the one on the mover; use ','";
	return why ? error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s: %s", name, why) : 0;
}

char **submit_words_get_argv(const struct submit_words *w, char *const *first, size_t n_first,
			     int without)
{
	char **argv = calloc(w->n_args + n_first + 2, sizeof(*argv));
	size_t n = 0;

	if (!argv)
		return NULL;
	argv[n++] = (char *)"sbatch";
	for (size_t i = 0; i < n_first; i++)
		argv[n++] = first[i];
	for (size_t i = 0; i < w->n_args; i++)
		if (!(w->marks[i] & without))
			argv[n++] = w->argv[i];
	return argv;
}
