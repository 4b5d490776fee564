/*
 * stage-mover: copies a source to the scratch file system. It runs in a job of the user on a node
 * that sees the source (client/submit-mover.h). It can also report whether there is a complete
 * copy.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "daemon/mover/check.h"
#include "daemon/mover/move.h"
#include "daemon/mover/record.h"

#define EXIT_NOT_THERE 3

static const struct option options[] = {
	{ "source", required_argument, NULL, 's' },
	{ "literal", no_argument, NULL, 'l' },
	{ "follow", no_argument, NULL, 'f' },
	{ "match", required_argument, NULL, 'p' },
	{ "dir", required_argument, NULL, 'd' },
	{ "readers", required_argument, NULL, 'r' },
	{ "max-bytes", required_argument, NULL, 'b' },
	{ "max-rate", required_argument, NULL, 'm' },
	{ 0 },
};

static int usage(void)
{
	fputs("usage: stage-mover move|check --source=PATH [--literal] --dir=DIRECTORY\n"
	      "       [--follow] [--match=PATTERN] [--readers=N] [--max-bytes=N] [--max-rate=N]\n"
	      "       stage-mover progress --dir=DIRECTORY\n"
	      "Started by stagectl submit, see stagectl(1).\n",
	      stderr);
	return STAGE_EXIT_USAGE;
}

static bool parse(struct move_order *o, int argc, char **argv)
{
	bool ok = true, literal = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			o->source = optarg;
			break;
		case 'l':
			literal = true;
			break;
		case 'f':
			o->follow = true;
			break;
		case 'p':
			o->match = optarg;
			break;
		case 'd':
			o->dir = optarg;
			break;
		case 'r':
			ok &= parse_uint32(optarg, &o->max_readers) == 0;
			break;
		case 'b':
			ok &= parse_uint64(optarg, &o->max_bytes) == 0;
			break;
		case 'm':
			ok &= parse_uint64(optarg, &o->max_rate) == 0;
			break;
		default:
			return false;
		}
	}
	if (o->source)
		o->n_top = literal ? strlen(o->source) : path_get_top(o->source);
	return ok && optind == argc - 1 && (!o->source || o->source[0] == '/') && o->dir &&
	       o->dir[0] == '/';
}

static int mover_fail(const struct error *err)
{
	struct error explained = *err;

	file_size_limit_explain(&explained);
	fprintf(stderr, "stage-mover: %s\n", explained.text);
	return (int)error_to_exit(err);
}

static void mover_tell(const struct move_order *o, const struct move_result *r, uint64_t ms)
{
	char read[PARSE_SIZE_TEXT], linked[PARSE_SIZE_TEXT], kept[PARSE_SIZE_TEXT];
	char time[PARSE_DURATION_TEXT];

	printf("stage-mover: %s: %llu %s, %s read in %s; %s were there already, %s were left by "
	       "an interrupted mover\n",
	       o->source, (unsigned long long)r->files, count_word(r->files, "file", "files"),
	       size_to_string(r->read_bytes, read), duration_to_string(ms, time),
	       size_to_string(r->linked_bytes, linked), size_to_string(r->kept_bytes, kept));
	if (o->follow)
		printf("stage-mover: %s: %llu %s to\n", o->source, (unsigned long long)r->followed,
		       count_word(r->followed, "link was copied as what it leads",
				  "links were copied as what they lead"));
}

static int run_move(const struct move_order *o)
{
	struct error err = ERROR_INIT;
	uint64_t began = clock_ms();
	struct move_result result;
	int r;

	fd_raise_limit(); /* a directory stays open while something below it is copied */
	r = move_run(o, &result, &err);
	if (r == -ENOSPC || r == -EDQUOT)
		error_set_hint(&err, r, "make room in %s; what is copied already is kept", o->dir);
	if (r < 0)
		return mover_fail(&err);
	mover_tell(o, &result, clock_ms() - began);
	return 0;
}

static int run_check(const struct move_order *o)
{
	struct error err = ERROR_INIT;
	const char *why;
	int r;

	r = check_copy(o, &why, &err);
	if (r < 0)
		return mover_fail(&err);
	puts(r ? "whole" : why);
	return r ? 0 : EXIT_NOT_THERE;
}

/* Prints one NAME VALUE on each line, for programs. */
static int run_progress(const struct move_order *o)
{
	struct error err = ERROR_INIT;
	struct record_progress p;
	int r;

	r = record_read_progress(&p, o->dir, &err);
	if (r < 0)
		return mover_fail(&err);
	if (r == 0)
		return EXIT_NOT_THERE;
	printf("bytes %llu\nfiles %llu\nsize %llu\n", (unsigned long long)p.bytes,
	       (unsigned long long)p.files, (unsigned long long)p.size);
	if (p.source)
		printf("source %s\n", p.source);
	free(p.source);
	return 0;
}

int main(int argc, char **argv)
{
	struct move_order order = { 0 };

	file_size_limit_catch();
	if (!parse(&order, argc, argv))
		return usage();
	if (!strcmp(argv[optind], "progress"))
		return order.source ? usage() : run_progress(&order);
	if (!order.source)
		return usage();
	if (!strcmp(argv[optind], "move"))
		return run_move(&order);
	return !strcmp(argv[optind], "check") ? run_check(&order) : usage();
}
