/*
 * Who finds a failure adds its hint where it depends on what was done (error_set_hint()). What is
 * the same wherever it happens, a file that may not be read or a file system that fails, stands
 * here once, by the code.
 *
 * Text of a library is told apart by its words: what ends too early is cut off, all else is
 * damaged.
 */
#include "daemon/worker/hint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/web/web.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"

#define HINT_AGAIN "make or copy it again"

/* clang-format off */
static const struct {
	int errnum;
	const char *hint;
} hints[] = {
	{ ENOENT,       "check the name, and that this node sees that file system" },
	{ ENOTDIR,      "check the name: a part of it is a file" },
	{ EACCES,       "make it readable for you (ls -l shows the modes), or ask its owner" },
	{ EPERM,        "stagectl list --site shows what may be staged" },
	{ ESTALE,       "stage it when nobody writes to it" },
	{ EIO,          "read it once by hand (cat FILE >/dev/null); if that fails too, ask the site" },
	{ EBADMSG,      HINT_AGAIN },
	{ ENODATA,      HINT_AGAIN },
	{ E2BIG,        "stage less at once" },
	{ ELOOP,        "hint the link, or name the file it should lead to" },
	{ ENAMETOOLONG, "use shorter names" },
	{ ENOMEM,       "ask for more --mem" },
	{ ENOSPC,       "ask for more --mem, or another place (:ssd)" },
	{ EDQUOT,       "stage less (subdir=, include=), or ask the site" },
	{ EMFILE,       "ask the site to raise the number of open files" },
	{ ENFILE,       "ask the site to raise the number of open files" },
	{ ETIMEDOUT,    "try again; if it stays, ask the site about that file system" },
	{ EOPNOTSUPP,   "ask the site" },
	{ EEXIST,       "take it away, or give another NAME" },
	{ EINVAL,       "see stage-data(7)" },
};
/* clang-format on */

int hint_damage(struct error *err, int r, const char *what, uint64_t size)
{
	char how[ERROR_MAX_SIZE / 2], text[PARSE_SIZE_TEXT];
	bool no_end;

	if (r != -ENODATA && r != -EBADMSG)
		return r;
	snprintf(how, sizeof(how), "%.500s", err ? err->text : "");
	no_end = strstr(how, UNTAR_NO_END);
	if (r == -EBADMSG)
		error_set(err, EIO, "%.400s is damaged (%s)", what, how);
	else if (size)
		error_set(err, EIO, "%.400s is cut off after %s (%s)", what,
			  size_to_string(size, text), how);
	else
		error_set(err, EIO, "%.400s is cut off (%s)", what, how);
	return error_set_hint(err, -EIO, "%s%s", HINT_AGAIN,
			      no_end ? ", or take it as it is by verify=none" : "");
}

static bool names_source(const char *text, const char *path)
{
	struct error escaped = ERROR_INIT;

	error_set(&escaped, EINVAL, "%s", path);
	return strstr(text, escaped.text);
}

int hint_archive(const struct source *src, enum facts_format format, int r, struct error *err)
{
	struct error changed = ERROR_INIT;

	if ((r == -ENODATA || r == -EBADMSG || r == -EINVAL) &&
	    source_check_unchanged(src, &changed) == -ESTALE) {
		*err = changed;
		return -ESTALE;
	}
	r = hint_damage(err, r, src->path, (uint64_t)src->st.st_size);
	if (r == -EINVAL || r == -EEXIST || r == -EISDIR || r == -ENOENT || r == -ENAMETOOLONG ||
	    r == -EFBIG)
		error_set_hint(err, r, "make the archive again, by %s",
			       format == FORMAT_ZIP ? "zip -r" : "tar -C DIR -cf FILE .");
	return r;
}

void hint_error(const struct ctx *ctx, const struct source *src, struct error *err)
{
	char shown[DATASET_MAX_ITEM];
	const char *path = src && src->path ? src->path : NULL;

	if (err->code == -ECANCELED || err->code == -EPROTO)
		return;
	if (!path)
		path = web_show(ctx->ds->source, shown, sizeof(shown));
	if (!names_source(err->text, path))
		error_prefix(err, "%.700s", path);
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		if (hints[i].errnum == -err->code) {
			error_set_hint(err, err->code, "%s", hints[i].hint);
			return;
		}
	}
	error_set_hint(err, err->code, "try again; if it stays, ask the site");
}
