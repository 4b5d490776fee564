/*
 * A member is a header, or several: a long name, a long link or pax records come before the one
 * that they are about. If two dialects describe the same member, the member is not parsed here but
 * left to the other reader.
 */
#include "daemon/engines/archive/untar-parser.h"

#include <string.h>

#include "daemon/engines/archive/pax-records.h"

static bool set_text(char to[static UNTAR_MAX_TEXT], bool *hasp, const char *s, size_t n)
{
	if (n == 0 || n >= UNTAR_MAX_TEXT || memchr(s, '\0', n))
		return false;
	memcpy(to, s, n);
	to[n] = '\0';
	*hasp = true;
	return true;
}

static bool set_mtime(struct untar_parser *p, const char *s, size_t n)
{
	p->has_mtime = pax_read_time(s, n, &p->mtime, &p->mtime_ns);
	return p->has_mtime;
}

static bool set_size(struct untar_parser *p, const char *s, size_t n)
{
	p->has_size = pax_read_digits(s, n, &p->size);
	return p->has_size;
}

static bool is_sparse(const struct pax_record *rec)
{
	const size_t n = strlen(UNTAR_SPARSE_PREFIX);

	return rec->key_size >= n && !memcmp(rec->key, UNTAR_SPARSE_PREFIX, n);
}

static bool take_record(struct untar_parser *p, const struct pax_record *rec)
{
	const char *value = rec->value;
	size_t size = rec->value_size;

	if (pax_record_is_passed_over(rec))
		return true;
	if (p->body == UNTAR_GLOBAL)
		return false; /* a global name or size makes no sense: use libarchive */
	if (pax_record_is(rec, "path"))
		return !p->has_name && set_text(p->name, &p->has_name, value, size);
	if (pax_record_is(rec, "linkpath"))
		return !p->has_link && set_text(p->link, &p->has_link, value, size);
	if (pax_record_is(rec, "size"))
		return !p->has_size && set_size(p, value, size);
	if (pax_record_is(rec, "mtime"))
		return !p->has_mtime && set_mtime(p, value, size);
	if (!p->takes_sparse || !is_sparse(rec))
		return false;
	if (pax_record_is(rec, UNTAR_SPARSE_NAME))
		return !p->has_sparse_name &&
		       set_text(p->sparse_name, &p->has_sparse_name, value, size);
	return untar_sparse_take_record(&p->sparse, rec);
}

static bool take_records(struct untar_parser *p, const char *data, size_t size)
{
	struct pax_record rec;

	p->sparse.records = data;
	p->sparse.n_records = size;
	while (size > 0) {
		if (!pax_records_next(&data, &size, &rec) || !take_record(p, &rec))
			return false;
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

static bool has_slash(const struct member *m)
{
	size_t n = strlen(m->path);

	return n > 0 && m->path[n - 1] == '/';
}

/* Returns true for a directory in the oldest dialect: its type is that of a file, and its name ends
 * in a slash. */
static bool is_old_dir(const struct untar_parser *p, const struct member *m)
{
	return m->type == MEMBER_FILE && has_slash(m) && !p->has_pax && !m->sparse;
}

/* Completes a sparse file. The name in its header was invented by the program that made the
 * archive, so the name in its records is used. */
static bool finish_sparse(struct untar_parser *p, struct member *m)
{
	m->sparse = p->sparse.kind != UNTAR_SPARSE_NONE;
	if (!m->sparse)
		return !p->has_sparse_name;
	if (p->has_sparse_name)
		m->path = p->sparse_name;
	return m->type == MEMBER_FILE && untar_sparse_is_complete(&p->sparse);
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
	if (!finish_sparse(p, m))
		return UNTAR_STEP_FOREIGN;
	if (m->type == MEMBER_SYMLINK || m->type == MEMBER_HARDLINK)
		m->link = p->has_link ? p->link : h->link;
	else if (p->has_link)
		return UNTAR_STEP_FOREIGN;
	if (m->type == MEMBER_FILE && has_slash(m) && m->size > 0)
		return UNTAR_STEP_SLASH;
	if (is_old_dir(p, m))
		m->type = MEMBER_DIR;
	if (!*m->path || (m->link && !*m->link) || (m->type != MEMBER_FILE && m->size > 0) ||
	    (m->type == MEMBER_FILE && has_slash(m)))
		return UNTAR_STEP_FOREIGN;
	p->has_gnu = p->has_pax = false;
	p->has_name = p->has_link = p->has_size = p->has_mtime = p->has_sparse_name = false;
	p->found = p->sparse;
	p->sparse = (struct untar_sparse){ 0 };
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
	case UNTAR_OLD_SPARSE:
		if (!p->takes_sparse || p->has_pax || !untar_sparse_take_header(&p->sparse, block))
			return UNTAR_STEP_FOREIGN;
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
	case UNTAR_STAR_SPARSE:
		return UNTAR_STEP_STAR;
	case UNTAR_FOREIGN:
		break;
	}
	return UNTAR_STEP_FOREIGN;
}

enum untar_step untar_parser_add_body(struct untar_parser *p, const char *data, size_t size)
{
	bool ok;

	switch (p->body) {
	case UNTAR_LONG_NAME: /* the body includes one or more NULs */
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
