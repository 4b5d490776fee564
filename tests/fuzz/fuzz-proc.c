/*
 * Files of the kernel that contain names which users choose. The first byte says which file. A name
 * must not change what is read from the rest of the file.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/protocol/tier-name.h"
#include "common/slurm/job-cgroup.h"
#include "common/util/mountinfo.h"
#include "daemon/keeper/keeper.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/proc-look.h"

#define MAX_NAME 900

/* As seq_path() writes it. */
static void escape(const char *path, char *out)
{
	for (; *path; path++) {
		if (strchr(" \t\n\\", *path))
			out += sprintf(out, "\\%03o", (unsigned char)*path);
		else
			*out++ = *path;
	}
	*out = '\0';
}

static void read_mount(const char *name)
{
	char escaped[4 * MAX_NAME + 8], line[4 * MAX_NAME + 128], path[MAX_NAME + 2];
	struct mountinfo m;

	snprintf(path, sizeof(path), "/%.*s", MAX_NAME - 1, name);
	escape(path, escaped);
	snprintf(line, sizeof(line), "36 35 0:52 / %s rw,nosuid shared:1 - fuse.x y rw,z", escaped);
	FUZZ_CHECK(mountinfo_parse(&m, line) == 0 && m.minor == 52 && !strcmp(m.target, path));
	FUZZ_CHECK(!strcmp(m.type, "fuse.x") && !strcmp(m.options, "rw,z"));
}

static void read_stat(const char *name)
{
	char line[MAX_NAME + 128], state = 0;
	uint64_t start = 0;
	struct proc_thread t;
	pid_t parent = 0;

	snprintf(line, sizeof(line),
		 "5 (%.*s) S 1 2 3 4 5 4 7 8 9 10 11 12 13 14 15 16 17 18 777 1 2 3 4 5 6 7 8 0",
		 MAX_NAME, name);
	FUZZ_CHECK(proc_parse_stat(line, &start, &state, &parent) == 0);
	FUZZ_CHECK(start == 777 && state == 'S' && parent == 1);
	FUZZ_CHECK(proc_look_parse_stat(line, &t) == 0 && t.start == 777 && t.asleep && t.ending);
}

/* A newline in a name is escaped there. */
static void read_status(char *name)
{
	char text[MAX_NAME + 256];
	struct proc_thread t;

	name[strcspn(name, "\n")] = '\0';
	snprintf(text, sizeof(text),
		 "Name:\t%.*s\nUmask:\t0022\nState:\tD (disk sleep)\nUid:\t5\t6\t6\t6\n"
		 "voluntary_ctxt_switches:\t30\nnonvoluntary_ctxt_switches:\t4\n",
		 MAX_NAME, name);
	FUZZ_CHECK(proc_look_parse_status(text, &t) == 0 && t.uid == 5 && t.switches == 34);
}

static void read_any(char *text)
{
	struct mountinfo m = { 0 };
	struct proc_thread t;
	uint64_t start;
	uint32_t job;
	cpu_set_t cpus;
	pid_t parent;
	char state;
	int r;

	if (mountinfo_parse(&m, text) == 0)
		FUZZ_CHECK(memchr(m.target, '\0', sizeof(m.target)) && m.type[0]);
	proc_parse_stat(text, &start, &state, &parent);
	(void)proc_look_parse_stat(text, &t);
	(void)proc_look_parse_status(text, &t);
	r = job_cgroup_parse_cpus(text, &cpus, sizeof(cpus));
	FUZZ_CHECK(r == -EINVAL || (r == 0 && CPU_COUNT(&cpus) > 0));
	if (tier_name_parse(text, &job) == 0)
		FUZZ_CHECK(!strncmp(text, "stage-data-", 11) ||
			   (!strncmp(text, "stage-keep-", 11) && job == 0));
	(void)job_cgroup_parse_above(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = NULL;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		read_mount(text);
		break;
	case 1:
		read_stat(text);
		break;
	case 2:
		read_status(text);
		break;
	case 3:
		read_any(text);
		break;
	}
	return 0;
}
