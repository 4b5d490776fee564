/*
 * A member is a header, or several: a long name, a long link or pax records come before the one
 * that they are about. Of what two dialects say about the same member nothing is made here.
 */
#include "daemon/engines/archive/untar-parser.h"

#include <string.h>

#define MAX_TIME (1LL << 40)
#define NS_PER_SECOND 1000000000L

/* Digits alone; false: none, others or too many. */
static bool read_digits(const char *s, size_t n, uint64_t *vp)
{
	uint64_t v = 0;

	if (n == 0 || n > 18)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	*vp = v;
	return true;
}

static bool set_text(char to[static UNTAR_MAX_TEXT], bool *hasp, const char *s, size_t n)
{
	if (n == 0 || n >= UNTAR_MAX_TEXT || memchr(s, '\0', n))
		return false;
	memcpy(to, s, n);
	to[n] = '\0';
	*hasp = true;
	return true;
}

/* "1234567890.123456789" or "-1.25", rounded down. */
static bool set_mtime(struct untar_parser *p, const char *s, size_t n)
{
	bool negative = n > 0 && *s == '-', more = false;
	const char *dot = memchr(s, '.', n);
	size_t whole = (dot ? (size_t)(dot - s) : n) - negative;
	size_t rest = dot ? n - negative - whole - 1 : 0;
	uint64_t sec, ns = 0;

	if (!read_digits(s + negative, whole, &sec) || sec > MAX_TIME)
		return false;
	if (rest > 9) {
		if (strspn(dot + 1, "0123456789") < rest)
			return false;
		more = strspn(dot + 10, "0") < rest - 9;
		rest = 9;
	}
	if (dot && !read_digits(dot + 1, rest, &ns))
		return false;
	for (; rest < 9; rest++)
		ns *= 10;
	p->has_mtime = true;
	p->mtime = negative ? -(int64_t)sec : (int64_t)sec;
	p->mtime_ns = (long)ns;
	if (negative && (ns > 0 || more)) { /* the part counts forward in any case */
		p->mtime--;
		p->mtime_ns = NS_PER_SECOND - (long)ns - more;
	}
	return true;
}

static bool set_size(struct untar_parser *p, const char *s, size_t n)
{
	p->has_size = read_digits(s, n, &p->size);
	return p->has_size;
}

/* Owners, other times, attributes and ACLs are not staged. */
static bool is_passed_over(const char *key, size_t n)
{
	static const char *const names[] = {
		"atime",      "ctime",	      "uid",	       "gid",
		"uname",      "gname",	      "comment",       "SCHILY.dev",
		"SCHILY.ino", "SCHILY.nlink", "SCHILY.fflags", "LIBARCHIVE.creationtime"
	};
	static const char *const prefixes[] = { "SCHILY.xattr.", "LIBARCHIVE.xattr.", "SCHILY.acl.",
						"RHT.security." };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (n == strlen(names[i]) && !memcmp(key, names[i], n))
			return true;
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		size_t m = strlen(prefixes[i]);

		if (n >= m && !memcmp(key, prefixes[i], m))
			return true;
	}
	return false;
}

static bool is_key(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && !memcmp(key, name, n);
}

static bool take_record(struct untar_parser *p, const char *key, size_t n, const char *value,
			size_t size)
{
	if (is_passed_over(key, n))
		return true;
	if (p->body == UNTAR_GLOBAL)
		return false; /* a name or size for all? */
	if (is_key(key, n, "path"))
		return !p->has_name && set_text(p->name, &p->has_name, value, size);
	if (is_key(key, n, "linkpath"))
		return !p->has_link && set_text(p->link, &p->has_link, value, size);
	if (is_key(key, n, "size"))
		return !p->has_size && set_size(p, value, size);
	if (is_key(key, n, "mtime"))
		return !p->has_mtime && set_mtime(p, value, size);
	return false;
}

/* Records "25 ctime=1084839148.1212\n"; the number counts itself. */
static bool take_records(struct untar_parser *p, const char *data, size_t size)
{
	const char *blank, *equals;
	uint64_t n;
	size_t width;

	while (size > 0) {
		blank = memchr(data, ' ', size < 8 ? size : 8);
		width = blank ? (size_t)(blank - data) : 0;
		if (!blank || !read_digits(data, width, &n) || n > size || n < width + 4 ||
		    data[n - 1] != '\n')
			return false;
		equals = memchr(blank + 1, '=', n - width - 2);
		if (!equals || equals == blank + 1 ||
		    !take_record(p, blank + 1, (size_t)(equals - blank - 1), equals + 1,
				 (size_t)(data + n - 1 - equals - 1)))
			return false;
		data += n;
		size -= n;
	}
	return true;
}

static enum untar_step expect_body(struct untar_parser *p, enum untar_kind kind, size_t *sizep)
{
	bool is_gnu = kind == UNTAR_LONG_NAME || kind == UNTAR_LONG_LINK;
	uint64_t max = is_gnu ? UNTAR_MAX_TEXT : UNTAR_MAX_PAX;

	if (p->header.size == 0 || p->header.size > max || p->has_pax ||
	    (p->has_gnu && (!is_gnu || (kind == UNTAR_LONG_NAME ? p->has_name : p->has_link))))
		return UNTAR_STEP_FOREIGN;
	p->body = kind;
	*sizep = (size_t)p->header.size;
	return UNTAR_STEP_BODY;
}

/* Names of directories end in a slash in the oldest dialect, and their type is a file's. */
static bool is_old_dir(const struct untar_parser *p, const struct member *m)
{
	size_t n = strlen(m->path);

	return m->type == MEMBER_FILE && n > 0 && m->path[n - 1] == '/' && !p->has_pax;
}

static enum untar_step finish_member(struct untar_parser *p, struct member *m)
{
	const struct untar_header *h = &p->header;

	*m = (struct member){
		.type = h->type,
		.path = p->has_name ? p->name : h->name,
		.mode = h->mode,
		.mtime = p->has_mtime ? p->mtime : h->mtime,
		.mtime_ns = p->has_mtime ? p->mtime_ns : 0,
		.has_mtime = true,
		.size = p->has_size ? p->size : h->size,
	};
	if (m->type == MEMBER_SYMLINK || m->type == MEMBER_HARDLINK)
		m->link = p->has_link ? p->link : h->link;
	else if (p->has_link)
		return UNTAR_STEP_FOREIGN;
	if (is_old_dir(p, m))
		m->type = MEMBER_DIR;
	if (!*m->path || (m->link && !*m->link) || (m->type != MEMBER_FILE && m->size > 0) ||
	    (m->type == MEMBER_FILE && m->path[strlen(m->path) - 1] == '/'))
		return UNTAR_STEP_FOREIGN;
	p->has_gnu = p->has_pax = false;
	p->has_name = p->has_link = p->has_size = p->has_mtime = false;
	return UNTAR_STEP_MEMBER;
}

enum untar_step untar_parser_add_header(struct untar_parser *p,
					const unsigned char block[static UNTAR_BLOCK],
					struct member *m, size_t *body_sizep)
{
	enum untar_kind kind = untar_header_read(block, &p->header);

	switch (kind) {
	case UNTAR_MEMBER:
		return finish_member(p, m);
	case UNTAR_LONG_NAME:
	case UNTAR_LONG_LINK:
	case UNTAR_PAX:
	case UNTAR_GLOBAL:
		return expect_body(p, kind, body_sizep);
	case UNTAR_ZERO:
		return p->has_gnu || p->has_pax ? UNTAR_STEP_FOREIGN : UNTAR_STEP_ZERO;
	case UNTAR_DAMAGED:
		return UNTAR_STEP_DAMAGED;
	case UNTAR_FOREIGN:
		break;
	}
	return UNTAR_STEP_FOREIGN;
}

enum untar_step untar_parser_add_body(struct untar_parser *p, const char *data, size_t size)
{
	bool ok;

	switch (p->body) {
	case UNTAR_LONG_NAME: /* with its NUL, and sometimes more of them */
		ok = set_text(p->name, &p->has_name, data, strnlen(data, size));
		p->has_gnu = true;
		break;
	case UNTAR_LONG_LINK:
		ok = set_text(p->link, &p->has_link, data, strnlen(data, size));
		p->has_gnu = true;
		break;
	case UNTAR_PAX:
		ok = take_records(p, data, size);
		p->has_pax = true;
		break;
	default:
		ok = take_records(p, data, size);
		return ok ? UNTAR_STEP_NEXT : UNTAR_STEP_FOREIGN;
	}
	return ok ? UNTAR_STEP_MORE : UNTAR_STEP_FOREIGN;
}
