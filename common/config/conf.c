/*
 * Loads the main file, then the files of conf.d/ in byte order. A later file overrides single keys
 * and may add sections. Then the whole configuration is checked. The file `disabled` is checked
 * last; its existence is enough.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/util/fnv.h"
#include "common/util/parse.h"
#include "common/util/path.h"

#include "stage-build.h"

#define MAX_DISABLED 4096

struct load {
	struct conf *conf;
	struct conf_report *report;
	uint64_t hash;
};

static void set_hash(struct conf *conf, uint64_t hash)
{
	snprintf(conf->hash, sizeof(conf->hash), "%016llx", (unsigned long long)hash);
}

static int add_shm(struct conf *conf)
{
	int r;

	if (conf_get_tier(conf, "shm"))
		return 0;
	r = conf_add_item(conf, conf_find_section("tier", 4), "shm");
	if (r < 0)
		return r;
	conf->tiers[conf->n_tiers - 1].kind = CONF_TIER_MEMORY;
	return 0;
}

/* Makes a configuration without tiers, because the files may define shm. */
static int new_bare(struct conf **confp)
{
	_cleanup_(conf_freep) struct conf *conf = calloc(1, sizeof(*conf));
	int r;

	if (!conf)
		return -ENOMEM;
	r = conf_set_defaults(conf);
	if (r == 0)
		r = conf_init_values(&conf->own, conf_find_section("source", 6));
	if (r < 0)
		return r;
	conf->own.name = strdup("own");
	conf->path = strdup(STAGE_CONF_DIR "/stage-data.conf");
	conf->places = calloc(1, sizeof(*conf->places));
	if (!conf->own.name || !conf->path || !conf->places)
		return -ENOMEM;
	set_hash(conf, FNV_INIT);
	*confp = steal_ptr(conf);
	return 0;
}

int conf_new(struct conf **confp)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	int r;

	r = new_bare(&conf);
	if (r == 0)
		r = add_shm(conf);
	if (r == 0)
		*confp = steal_ptr(conf);
	return r;
}

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	conf_free_items(conf);
	conf_free_values(&conf->own, conf_find_section("source", 6));
	free(conf->own.name);
	free(conf->path);
	if (conf->places)
		conf_places_deinit(conf->places);
	free(conf->places);
	free(conf->disabled_text);
	free(conf);
}

static const char *place_get_name(const struct conf *conf, const struct conf_place *p)
{
	if (p->key)
		return p->key->name;
	/* The struct of a named item begins with its name. */
	return *(char *const *)conf_section_base((struct conf *)conf, p->section, p->index);
}

bool conf_get_place(const struct conf *conf, const char *section, const char *name,
		    const char **filep, unsigned *linep)
{
	for (size_t i = 0; conf->places && i < conf->places->n_items; i++) {
		const struct conf_place *p = &conf->places->items[i];

		if (strcmp(p->section->name, section) || strcmp(place_get_name(conf, p), name))
			continue;
		*filep = p->file;
		*linep = p->line;
		return true;
	}
	return false;
}

/* Parses the file fd. path is used in messages. */
static int load_fd(struct load *l, int fd, const char *path)
{
	_cleanup_(freep) char *data = NULL;
	size_t size;
	int r;

	l->report->file = path;
	l->report->line = 0;
	r = conf_read(fd, path, CONF_MAX_FILE, &data, &size, l->report);
	if (r < 0)
		return r;
	l->hash = fnv_add(l->hash, data, size);
	l->conf->from_file = true;
	return conf_parse(l->conf, data, size, l->conf->places, l->report);
}

static int load_main(struct load *l, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;

	fd = conf_open(path, false, l->report);
	if (fd == -ENOENT)
		return 0;
	return fd < 0 ? fd : load_fd(l, fd, path);
}

static int load_one(struct load *l, int dirfd, const char *dir, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *path = path_join(dir, name);

	if (!path)
		return -ENOMEM;
	l->report->file = path;
	l->report->line = 0;
	fd = conf_open_at(dirfd, name, path, l->report);
	if (fd == -ENOENT)
		return 0; /* removed since it was listed */
	return fd < 0 ? fd : load_fd(l, fd, path);
}

static int load_dir(struct load *l, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	char **names = NULL;
	size_t n_names = 0;
	int r, first = 0;

	l->report->file = path;
	l->report->line = 0;
	fd = conf_open(path, true, l->report);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = conf_list_dir(fd, path, &names, &n_names, l->report);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_names; i++) {
		r = load_one(l, fd, path, names[i]);
		first = first ? first : r;
		free(names[i]);
	}
	free(names);
	return first;
}

static int load_disabled(struct load *l, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *data = NULL;
	char text[512];
	size_t size;
	int r;

	l->report->file = path;
	l->report->line = 0;
	/* The file may have been made with a umask of 077. It exists, so staging is off, but its
	 * text may not be read. */
	if (access(path, R_OK) < 0 && errno == EACCES && access(path, F_OK) == 0) {
		l->conf->enabled = false;
		l->conf->disabled_text = strdup("");
		return l->conf->disabled_text ? 0 : -ENOMEM;
	}
	fd = conf_open(path, false, l->report);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = conf_read(fd, path, MAX_DISABLED, &data, &size, l->report);
	if (r < 0)
		return r;
	for (size_t i = 0; i < size; i++)
		if (data[i] == '\n' || data[i] == '\t')
			data[i] = ' ';
	while (size > 0 && data[size - 1] == ' ')
		size--;
	text_escape(text, sizeof(text), data, size);
	l->conf->enabled = false;
	l->conf->disabled_text = strdup(text);
	return l->conf->disabled_text ? 0 : -ENOMEM;
}

/* Finds the absolute, normal form of path, and its directory. */
static int find_paths(struct load *l, const char *path, char dir[static PATH_MAX])
{
	_cleanup_(freep) char *joined = NULL;
	char cwd[PATH_MAX], normal[PATH_MAX];

	if (!path)
		path = STAGE_CONF_DIR "/stage-data.conf";
	if (*path != '/' && !getcwd(cwd, sizeof(cwd)))
		return conf_report(l->report, errno, "name an absolute path", "%s: %s", path,
				   strerror(errno));
	joined = *path == '/' ? strdup(path) : path_join(cwd, path);
	if (!joined)
		return -ENOMEM;
	if (path_normalize(joined, normal, sizeof(normal)) < 0)
		return conf_report(l->report, EINVAL, "name an absolute path", "%s is no path",
				   path);
	free(l->conf->path);
	l->conf->path = strdup(normal);
	if (!l->conf->path)
		return -ENOMEM;
	snprintf(dir, PATH_MAX, "%.*s", (int)(path_base(normal) - normal), normal);
	return 0;
}

static int load_beside(struct load *l, const char *dir, const char *name,
		       int (*load_fn)(struct load *l, const char *path))
{
	_cleanup_(freep) char *path = path_join(dir, name);

	return path ? load_fn(l, path) : -ENOMEM;
}

/* Reads all files, even if some have errors. Stops only for -ENOMEM. */
static int load_all(struct load *l, const char *path)
{
	char dir[PATH_MAX];
	int r;

	l->report->file = path ? path : STAGE_CONF_DIR "/stage-data.conf";
	r = find_paths(l, path, dir);
	if (r < 0)
		return r;
	l->report->file = l->conf->path;
	r = load_main(l, l->conf->path);
	if (r != -ENOMEM)
		r = load_beside(l, dir, "conf.d", load_dir);
	if (r != -ENOMEM)
		r = load_beside(l, dir, "disabled", load_disabled);
	if (r != -ENOMEM)
		r = add_shm(l->conf);
	if (r == -ENOMEM)
		return r;
	conf_check_whole(l->conf, l->conf->places, l->report);
	set_hash(l->conf, l->hash);
	return l->report->n_errors ? l->report->code : 0;
}

static int load(struct conf **confp, const char *path, struct conf_report *report)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct load l = { .report = report, .hash = FNV_INIT };
	int r;

	r = new_bare(&conf);
	if (r < 0)
		return r;
	l.conf = conf;
	r = load_all(&l, path);
	if (r < 0)
		return r;
	*confp = steal_ptr(conf);
	return 0;
}

/* Keeps the first error. */
static void keep_first(void *arg, const char *file, unsigned line, const char *text,
		       const char *hint)
{
	struct error *err = arg;

	if (!err || err->code)
		return;
	if (line > 0)
		error_set(err, EINVAL, "%s:%u: %s%s%s", file, line, text, *hint ? "; " : "", hint);
	else
		error_set(err, EINVAL, "%s%s%s", text, *hint ? "; " : "", hint);
}

int conf_load(struct conf **confp, const char *path, struct error *err)
{
	struct error local = ERROR_INIT;
	struct conf_report report = { .fn = keep_first, .arg = &local };
	int r;

	r = load(confp, path, &report);
	if (r == 0)
		return 0;
	if (!local.code)
		return error_errno(err, -r, "%s", path ? path : STAGE_CONF_DIR "/stage-data.conf");
	return error_set(err, -r, "%s", local.text);
}

int conf_check(const char *path,
	       void (*report)(void *arg, const char *file, unsigned line, const char *text,
			      const char *hint),
	       void *arg)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct conf_report r = { .fn = report, .arg = arg };

	if (load(&conf, path, &r) == -ENOMEM)
		conf_report(&r, ENOMEM, "", "%s", strerror(ENOMEM));
	return (int)r.n_errors;
}
