#include "daemon/stagingd/env-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/strutil.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-runs.h"
#include "daemon/stagingd/stage.h"

#define NAME_SIZE (DATASET_NAME_SIZE + 32)

static void print_names(const struct job_runs *runs, FILE *f)
{
	const char *separator = "";

	fputs("STAGE_DATA_NAMES=", f);
	for (size_t i = 0; i < runs->n; i++) {
		fprintf(f, "%s%s", separator, job_runs_get_stage(runs, i)->dataset->name);
		separator = " ";
	}
	fputc('\n', f);
}

static void print_dataset(const struct job_info *info, const struct stage *s, FILE *f)
{
	const struct dataset *d = s->dataset;
	char name[NAME_SIZE];

	dataset_env_name(d, "STAGE_DATA_PATH_", name, sizeof(name));
	if (s->place)
		fprintf(f, "%s=%s\n", name, s->place);
	else
		fprintf(f, "%s=%s/" RUNDIR_DATA "/%s\n", name, info->rundir, d->name);
	if (!d->is_set)
		return;
	dataset_env_name(d, "STAGE_DATA_LIST_", name, sizeof(name));
	fprintf(f, "%s=%s/" RUNDIR_PRIVATE "/list.%s\n", name, info->rundir, d->name);
}

/* Names the whole run directory, because it contains the socket and the mounts of images, to which
 * entries of STAGE_DATA_DIR may link. */
static void print_containers(const struct job_info *info, FILE *f)
{
	const char *list = info->conf ? info->conf->containers_export : "";

	if (conf_list_has(list, "apptainer"))
		fprintf(f, "APPTAINER_BIND=%s\n", info->rundir);
	if (conf_list_has(list, "pyxis"))
		fprintf(f, "PYXIS_CONTAINER_MOUNTS=%s:%s\n", info->rundir, info->rundir);
}

void env_file_print(const struct job_info *info, const struct job_runs *runs, FILE *f)
{
	fprintf(f, "STAGE_DATA_DIR=%s/" RUNDIR_DATA "\n", info->rundir);
	fprintf(f, "STAGE_DATA_SOCKET=%s/" RUNDIR_SOCK "\n", info->rundir);
	print_names(runs, f);
	for (size_t i = 0; i < runs->n; i++)
		print_dataset(info, job_runs_get_stage(runs, i), f);
	print_containers(info, f);
}

int env_file_write(const struct job_info *info, const struct job_runs *runs, struct error *err)
{
	_cleanup_(freep) char *path = NULL, *tmp = NULL;
	_cleanup_(file_closep) FILE *f = NULL;
	int fd;

	path = strutil_printf("%s/" RUNDIR_ENV, info->rundir);
	tmp = path ? strutil_printf("%s.tmp", path) : NULL;
	if (!tmp)
		return error_set(err, ENOMEM, "out of memory");
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		fd_closep(&fd);
		return error_errno(err, errno, "create %s", tmp);
	}
	env_file_print(info, runs, f);
	if (fflush(f) == EOF || ferror(f))
		return error_errno(err, errno, "write %s", tmp);
	if (rename(tmp, path) < 0)
		return error_errno(err, errno, "rename %s", tmp);
	return 0;
}
