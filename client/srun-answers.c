#include "client/srun-answers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/capture.h"
#include "common/util/cleanup.h"

#define SCONTROL_MS 5000
#define MAX_SHOWN 8

struct text {
	char *buf;
	size_t size, used;
	uint32_t n_nodes;
};

void srun_answers_add(struct srun_answers *s, const char *node)
{
	char **names = realloc(s->names, (s->n_names + 1) * sizeof(*names));

	if (!names)
		return;
	s->names = names;
	s->names[s->n_names] = strdup(node);
	if (s->names[s->n_names])
		s->n_names++;
}

void srun_answers_deinit(struct srun_answers *s)
{
	for (size_t i = 0; i < s->n_names; i++)
		free(s->names[i]);
	free(s->names);
	*s = (struct srun_answers){ 0 };
}

static bool has_answered(const struct srun_answers *s, const char *node)
{
	for (size_t i = 0; i < s->n_names; i++)
		if (!strcmp(s->names[i], node))
			return true;
	return false;
}

static void print(struct text *t, const char *node)
{
	int n = 0;

	if (t->n_nodes++ < MAX_SHOWN)
		n = snprintf(t->buf + t->used, t->size - t->used, "%s%s", t->used ? ", " : "",
			     node);
	if (n > 0 && (size_t)n < t->size - t->used)
		t->used += (size_t)n;
}

static void print_component(const struct srun_answers *s, const char *list, struct text *t)
{
	const char *const argv[] = { "scontrol", "show", "hostnames", list, NULL };
	_cleanup_(freep) char *names = NULL;
	char *save = NULL;

	if (!list || capture_slurm(argv, SCONTROL_MS, &names) != 0)
		return;
	for (char *n = strtok_r(names, "\n", &save); n; n = strtok_r(NULL, "\n", &save))
		if (!has_answered(s, n))
			print(t, n);
}

static const char *get_list(uint32_t component, uint32_t n_components)
{
	char name[64];

	if (n_components == 1)
		return getenv("SLURM_JOB_NODELIST");
	snprintf(name, sizeof(name), "SLURM_JOB_NODELIST_HET_GROUP_%u", component);
	return getenv(name);
}

void srun_answers_print_missing(const struct srun_answers *s, uint32_t n_components, char *buf,
				size_t size)
{
	struct text t = { .buf = buf, .size = size };

	buf[0] = '\0';
	for (uint32_t i = 0; i < n_components; i++)
		print_component(s, get_list(i, n_components), &t);
	if (t.n_nodes > MAX_SHOWN)
		snprintf(buf + t.used, size - t.used, " and %u more", t.n_nodes - MAX_SHOWN);
}
