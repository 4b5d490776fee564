/*
 * The names of members and the targets of links are made of few words, so that they often collide.
 * They go up at most three levels. struct oracle has more levels than that, so nothing outside of
 * it is reached.
 */
#include "tests/fuzz/hostile-tar.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "tests/fuzz/oracle.h"

#define BLOCK 512
#define MAX_TAR (256u << 10)
#define NAME_SIZE 600
#define LONG_WORD "name-that-needs-more-than-one-field-of-a-header-when-it-comes-more-than-once"

struct maker {
	char *buf;
	size_t size;
	const char *canary;
	char names[8][NAME_SIZE]; /* that were there before */
	unsigned n_names;
	bool tame; /* nothing that is refused at once: by links alone */
};

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};

static void put(struct maker *m, const void *data, size_t size)
{
	size_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;

	if (m->size + padded > MAX_TAR)
		return;
	memcpy(m->buf + m->size, data, size);
	memset(m->buf + m->size + size, 0, padded - size);
	m->size += padded;
}

static const char *draw(const char *const *words, size_t n)
{
	return words[oracle_random((uint32_t)n)];
}
#define DRAW(words) draw(words, ARRAY_SIZE(words))

/* A few plain components. */
static void make_plain(char *buf)
{
	static const char *const words[] = { "a",	"b", "d",      "l",	 "x\n",
					     "\033[2J", ".", "victim", LONG_WORD };
	size_t n = 0;

	for (int i = 1 + (int)oracle_random(3); i > 0; i--)
		n += (size_t)sprintf(buf + n, "%s%s", n ? "/" : "", DRAW(words));
	if (oracle_chance(10))
		strcpy(buf + n, "/");
}

static void make_name(struct maker *m, char *buf)
{
	static const char *const ups[] = { "../", "../../", "a/../../", "./../", "../../../" };
	static const char *const odd[] = { "", ".", "./", "..", "/", "a//b", "/a", "...", "a/.." };
	static const uint8_t tame_kinds[] = { 2, 4, 7, 7 };
	const char *before = m->names[oracle_random(m->n_names % 8 + 1)];
	char plain[NAME_SIZE];

	make_plain(plain);
	switch (m->tame ? (*before ? tame_kinds[oracle_random(4)] : 7) : oracle_random(12)) {
	case 0:
		sprintf(buf, "%s%s", DRAW(ups), plain);
		break;
	case 1:
		sprintf(buf, "%s/%s", m->canary, plain);
		break;
	case 2: /* beneath what was there before, a link perhaps */
	case 3:
		sprintf(buf, "%.300s/%.200s", before, plain);
		break;
	case 4: /* the same again */
	case 5:
		strcpy(buf, before);
		break;
	case 6:
		strcpy(buf, DRAW(odd));
		break;
	default:
		strcpy(buf, plain);
	}
}

static void make_target(struct maker *m, char *buf)
{
	static const char *const words[] = { ".",
					     "..",
					     "../..",
					     "../../canary",
					     "../../canary/dir",
					     "../../canary/victim",
					     "a",
					     "l",
					     "../victim",
					     "" };

	switch (oracle_random(4)) {
	case 0:
		sprintf(buf, "%s%s", m->canary, oracle_chance(50) ? "/victim" : "/dir");
		break;
	case 1:
	case 2:
		strcpy(buf, m->names[oracle_random(m->n_names % 8 + 1)]);
		break;
	default:
		strcpy(buf, DRAW(words));
	}
}

static void put_number(char *field, size_t size, uint64_t n)
{
	if (oracle_chance(97)) {
		snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)n);
	} else { /* base 256, sometimes negative */
		memset(field, oracle_chance(20) ? 0xff : 0, size);
		field[0] |= (char)0x80;
		field[size - 1] = (char)n;
	}
}

static void put_magic(struct header *h)
{
	switch (oracle_random(4)) {
	case 0:
		memcpy(h->magic, "ustar  ", 8); /* GNU */
		break;
	case 1:
		break; /* v7 */
	default:
		memcpy(h->magic, "ustar\00000", 8);
	}
}

/* Name and link are cut to their fields; the name may use the prefix. */
static void put_header(struct maker *m, char type, const char *name, const char *link,
		       uint64_t size)
{
	static const unsigned modes[] = { 0644, 0755, 07777, 04755, 02755, 0, 0444, 01777 };
	struct header h = { .type = type };
	const char *slash = strlen(name) > sizeof(h.name) ? strchr(name + strlen(name) - 99, '/')
							  : NULL;
	unsigned sum = 0;

	if (slash && (size_t)(slash - name) < sizeof(h.prefix)) {
		memcpy(h.prefix, name, (size_t)(slash - name));
		name = slash + 1;
	}
	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	memcpy(h.link, link, strnlen(link, sizeof(h.link)));
	put_number(h.mode, sizeof(h.mode), modes[oracle_random(ARRAY_SIZE(modes))]);
	put_number(h.uid, sizeof(h.uid), oracle_random(2000));
	put_number(h.gid, sizeof(h.gid), 0);
	put_number(h.size, sizeof(h.size), size);
	put_number(h.mtime, sizeof(h.mtime), oracle_random(1u << 31));
	put_magic(&h);
	put_number(h.major, sizeof(h.major), 1);
	put_number(h.minor, sizeof(h.minor), 3);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", oracle_chance(99) ? sum : sum + 1);
	put(m, &h, sizeof(h));
}

/* "27 path=../victim\n": the number counts itself. */
static size_t put_record(char *buf, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, n = rest;

	while (n != rest + (size_t)snprintf(NULL, 0, "%zu", n))
		n = rest + (size_t)snprintf(NULL, 0, "%zu", n);
	return (size_t)sprintf(buf, "%zu %s=%s\n", n + (oracle_chance(1) ? 1 : 0), key, value);
}

static void put_pax(struct maker *m, const char *name, const char *link)
{
	static const char *const keys[] = { "size",
					    "mtime",
					    "uid",
					    "SCHILY.xattr.user.x",
					    "comment",
					    "GNU.sparse.major",
					    "GNU.sparse.minor",
					    "GNU.sparse.realsize",
					    "SCHILY.fflags" };
	static const char *const values[] = {
		"0", "1", "7", "-1", "99999999999999999999", "nodump"
	};
	char records[4 * NAME_SIZE];
	size_t n = 0;

	if (oracle_chance(70))
		n += put_record(records + n, oracle_chance(90) ? "path" : "GNU.sparse.name", name);
	if (*link && oracle_chance(70))
		n += put_record(records + n, "linkpath", link);
	for (int i = (int)oracle_random(3); i > 0; i--)
		n += put_record(records + n, DRAW(keys), DRAW(values));
	put_header(m, oracle_chance(90) ? 'x' : 'g', "pax", "", n);
	put(m, records, n);
}

static void put_long(struct maker *m, char type, const char *text)
{
	put_header(m, type, "././@LongLink", "", strlen(text) + 1);
	put(m, text, strlen(text) + 1);
}

static char draw_type(const struct maker *m)
{
	static const char types[] = "00000000000000005555222222221111111134670SVMDNZ";
	static const char tame_types[] = "0000000555522222110";

	return m->tame ? tame_types[oracle_random(sizeof(tame_types) - 1)]
		       : types[oracle_random(sizeof(types) - 1)];
}

static void put_data(struct maker *m, size_t size)
{
	char data[4096];

	memset(data, 'x', sizeof(data));
	put(m, data, size);
}

/* An archive in the archive. */
static void put_inner(struct maker *m)
{
	_cleanup_(freep) void *inner = NULL;
	size_t size;

	inner = hostile_tar_new(m->canary, &size);
	if (size > MAX_TAR / 8)
		return;
	put_header(m, '0', oracle_chance(50) ? "n.tar" : "l/n.tar", "", size);
	put(m, inner, size);
}

static void put_member(struct maker *m)
{
	char name[2 * NAME_SIZE], link[2 * NAME_SIZE] = "";
	char type = draw_type(m);
	bool has_data = strchr("067SVMDNZ", type) ? oracle_chance(60) : oracle_chance(4);
	size_t size = has_data ? oracle_random(1500) : 0;

	make_name(m, name);
	name[NAME_SIZE - 1] = '\0';
	if (type == '1' || type == '2' || oracle_chance(3))
		make_target(m, link);
	link[NAME_SIZE - 1] = '\0';
	strcpy(m->names[m->n_names++ % 8], name);
	if (oracle_chance(15))
		put_pax(m, name, link);
	if (strlen(name) > 100 ? oracle_chance(80) : oracle_chance(8))
		put_long(m, 'L', name);
	if (*link && (strlen(link) > 100 || oracle_chance(8)))
		put_long(m, 'K', link);
	put_header(m, type, name, link, oracle_chance(98) ? size : oracle_random(1u << 20));
	put_data(m, size);
}

void *hostile_tar_new(const char *canary, size_t *sizep)
{
	static unsigned depth;
	struct maker m = { .buf = calloc(1, MAX_TAR + 4 * BLOCK), .canary = canary };

	ORACLE_CHECK(m.buf, "memory");
	m.tame = oracle_chance(60);
	depth++;
	for (int i = 1 + (int)oracle_random(7); i > 0; i--) {
		if (depth < 3 && oracle_chance(3))
			put_inner(&m);
		else
			put_member(&m);
	}
	depth--;
	m.size += oracle_chance(97) ? 2 * BLOCK : oracle_random(4 * BLOCK);
	*sizep = m.size;
	return m.buf;
}
