/*
 * Chooses the method by which a source becomes visible: the user's, or the one that fits its
 * content. Checks that the site's rule, this node and the item's other options allow it. Decides
 * whether the source is read once for all nodes.
 */
#include "daemon/worker/plan-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/worker/hint.h"

/* Describes the source for messages. */
static const char *describe(const struct facts *f, char buf[static 64])
{
	const char *filter = facts_filter_to_string(f->filter);

	if (f->kind == SOURCE_DIR)
		return "a directory";
	if (f->kind == SOURCE_SET)
		return "a set of files";
	if (f->format == FORMAT_PLAIN && f->counted && f->bytes == 0)
		return "an empty file";
	if (f->format == FORMAT_PLAIN && f->other && !f->other->is_page)
		return f->other->what;
	if (f->format == FORMAT_PLAIN)
		snprintf(buf, 64, "%s%s", *filter ? "a file in " : "a file", filter);
	else
		snprintf(buf, 64, "a %s%s%s", facts_format_to_string(f->format),
			 *filter			? " in "
			 : f->format == FORMAT_SQUASHFS ? " image"
							: " archive",
			 filter);
	return buf;
}

bool plan_is_plain_tar(const struct planner *p)
{
	return p->facts->format == FORMAT_TAR && p->facts->filter == FILTER_NONE;
}

bool plan_is_mountable(const struct planner *p)
{
	const struct facts *f = p->facts;

	return f->format == FORMAT_SQUASHFS || plan_is_plain_tar(p) ||
	       /* the same library reads the archive for both methods */
	       (f->format == FORMAT_ZIP && p->in->able.can_extract);
}

bool plan_can_mount(const struct planner *p)
{
	return p->in->able.can_mount && p->in->policy->fuse && plan_allows(p, DATASET_METHOD_MOUNT);
}

static enum dataset_method auto_for_image(struct planner *p)
{
	if (plan_can_mount(p))
		return DATASET_METHOD_MOUNT;
	plan_why(p, "images can't be mounted here%s",
		 p->in->able.can_extract ? ": it is unpacked" : "");
	return p->in->able.can_extract ? DATASET_METHOD_EXTRACT : DATASET_METHOD_MOUNT;
}

/* Returns whether an option shows that the source is an archive: one that selects members, or opens
 * archives inside. */
static bool asks_for_members(const struct dataset *ds)
{
	return ds->strip || ds->nested || ds->subdir || ds->n_include || ds->n_exclude;
}

bool plan_asks_to_open(const struct dataset *ds)
{
	return ds->method == DATASET_METHOD_EXTRACT || ds->method == DATASET_METHOD_MOUNT;
}

/* The content shows what the file can be; the name or an option shows whether it should be
 * opened. */
bool plan_wants_members(const struct dataset *ds, const struct facts *f)
{
	if (ds->method != DATASET_METHOD_AUTO)
		return ds->method == DATASET_METHOD_EXTRACT;
	return f->kind == SOURCE_FILE && facts_is_archive(f) &&
	       (magic_means_archive(f->format, f->promise) || asks_for_members(ds));
}

static enum dataset_method auto_method(struct planner *p)
{
	const struct facts *f = p->facts;

	if (f->is_remote && plan_is_dest(p, PLAN_TIER_SOURCE))
		return DATASET_METHOD_LINK; /* check_able() refuses it */
	if (f->kind == SOURCE_FILE && f->format == FORMAT_SQUASHFS)
		return auto_for_image(p);
	if (plan_is_dest(p, PLAN_TIER_SOURCE))
		return DATASET_METHOD_LINK;
	if (plan_wants_members(p->ds, f))
		return DATASET_METHOD_EXTRACT;
	if (!plan_allows(p, DATASET_METHOD_COPY) && plan_allows(p, DATASET_METHOD_LINK))
		return DATASET_METHOD_LINK;
	return DATASET_METHOD_COPY;
}

/* libarchive would have to start lzop, but workers start no programs. */
static int refuse_lzo(struct error *err)
{
	error_set(err, EINVAL, "it is packed by lzop, which can't be unpacked here");
	return error_set_hint(
		err, -EINVAL,
		"pack it again (lzop -dc FILE | zstd >NEW.tar.zst), or stage it as it is by "
		"method=copy");
}

/* Refuses a file that is named like an archive but is none, because it is probably damaged. */
static int check_promise(const struct planner *p, struct error *err)
{
	const struct facts *f = p->facts;
	enum facts_format promise = f->promise;
	char buf[64], shown[512];

	dataset_show_source(p->ds, shown, sizeof(shown));
	if (p->ds->method != DATASET_METHOD_AUTO || f->kind != SOURCE_FILE ||
	    f->format != FORMAT_PLAIN || promise == FORMAT_PLAIN)
		return 0;
	if (f->filter == FILTER_LZO)
		return refuse_lzo(err);
	error_set(err, EINVAL, "%s is %s%s and not the %s%s its name promises", shown,
		  f->bytes == 0 ? "empty"
		  : f->other	? f->other->what
				: describe(f, buf),
		  f->other ? "," : "", facts_format_to_string(promise),
		  promise == FORMAT_SQUASHFS ? " image" : " archive");
	return error_set_hint(err, -EINVAL, "%s, or stage it as it is by method=copy",
			      f->other ? f->other->fix : "make or copy it again");
}

static int refuse_method(const struct planner *p, struct error *err)
{
	const struct policy *pol = p->in->policy;

	error_set(err, EPERM, "the site's rule %s does not allow method=%s", pol->rule,
		  dataset_method_to_string(p->plan->method));
	return error_set_hint(err, -EPERM, "it allows method=%s", pol->methods);
}

static int refuse_mount(const struct planner *p, struct error *err)
{
	const struct plan_ability *a = &p->in->able;

	error_set(err, EOPNOTSUPP, "nothing can be mounted on this node: %s",
		  !p->in->policy->fuse ? "the site has switched FUSE off ([mount] Backend=none)"
		  : a->has_images      ? "it has no usable /dev/fuse"
				       : "stage-data was built without mounts");
	return error_set_hint(err, -EOPNOTSUPP,
			      a->can_extract ? "method=extract unpacks it" : "ask the site");
}

/* Images cannot be read at all if the build has no support for them. */
static int refuse_image(struct error *err)
{
	error_set(err, EOPNOTSUPP,
		  "squashfs images can't be read on this node: stage-data was built without them");
	return error_set_hint(err, -EOPNOTSUPP,
			      "stage the image as a file by method=copy, or ask the site");
}

/* Refuses a source whose content does not fit the method. If the name promises an archive, the hint
 * is not to leave method= out, because the file would be refused then, too. */
static int refuse_content(const struct planner *p, const char *fix, struct error *err)
{
	const struct facts *f = p->facts;
	char buf[64], part[HINT_PART_SIZE], shown[512];
	bool is_mount = p->plan->method == DATASET_METHOD_MOUNT;

	dataset_show_source(p->ds, shown, sizeof(shown));
	if (!f->other && f->kind == SOURCE_FILE && hint_part(shown, part, sizeof(part))) {
		error_set(err, EINVAL, "can't be %s: it is named like a part of a split file",
			  is_mount ? "mounted" : "extracted");
		return error_set_hint(err, -EINVAL, "%s", part);
	}
	error_set(err, EINVAL, "can't be %s: it is %s%s", is_mount ? "mounted" : "extracted",
		  f->other ? f->other->what : describe(f, buf),
		  f->other		      ? ""
		  : is_mount		      ? ", not a squashfs image, a plain tar or a zip"
		  : f->format == FORMAT_PLAIN ? ", not a squashfs image, a tar or a zip"
					      : "");
	if (f->kind == SOURCE_FILE && f->format == FORMAT_PLAIN && f->promise != FORMAT_PLAIN)
		fix = "make or copy it again, or stage it as it is by method=copy";
	return error_set_hint(err, -EINVAL, "%s", f->other ? f->other->fix : fix);
}

static const char *get_extract_fix(const struct planner *p)
{
	if (p->facts->filter != FILTER_NONE)
		return "leave method= out, and unpack it in the job (gzip -dc, for example)";
	return "leave method= out, or name an archive";
}

static const char *get_mount_fix(const struct planner *p)
{
	if (p->facts->format == FORMAT_TAR)
		return "leave method= out, or decompress it first (gzip -d, for example): a plain "
		       "tar is mounted";
	if (p->in->able.has_images)
		return "leave method= out, or make an image (stagectl pack)";
	return "leave method= out";
}

static int check_able(const struct planner *p, struct error *err)
{
	const struct plan_ability *a = &p->in->able;
	enum dataset_method m = p->plan->method;

	if (!plan_allows(p, m))
		return refuse_method(p, err);
	if (m == DATASET_METHOD_LINK && p->facts->is_remote) {
		error_set(err, EINVAL, "a link can't lead to an address");
		return error_set_hint(err, -EINVAL, "leave method=link and DEST source out");
	}
	if (m == DATASET_METHOD_EXTRACT && p->facts->filter == FILTER_LZO)
		return refuse_lzo(err);
	if ((m == DATASET_METHOD_EXTRACT || m == DATASET_METHOD_MOUNT) && !a->has_images &&
	    p->facts->format == FORMAT_SQUASHFS)
		return refuse_image(err);
	if (m == DATASET_METHOD_EXTRACT && !a->can_extract)
		return refuse_content(p, get_extract_fix(p), err);
	if (m == DATASET_METHOD_MOUNT && !plan_is_mountable(p))
		return refuse_content(p, get_mount_fix(p), err);
	if (m == DATASET_METHOD_MOUNT && !plan_can_mount(p))
		return refuse_mount(p, err);
	return 0;
}

/* Refuses options that have no effect with this source and method. */
static int check_options(const struct planner *p, struct error *err)
{
	const struct dataset *ds = p->ds;
	enum dataset_method m = p->plan->method;
	bool one = p->facts->kind == SOURCE_FILE, extract = m == DATASET_METHOD_EXTRACT;
	bool link = m == DATASET_METHOD_LINK, some = ds->n_include || ds->n_exclude;
	bool sha256 = ds->verify == DATASET_VERIFY_SHA256;
	/* clang-format off */
	const struct { bool wrong; const char *what, *hint; } rules[] = {
		{ ds->strip && !extract, "strip= is for archives that are extracted",
		  m == DATASET_METHOD_MOUNT ? "leave it out, or use method=extract" : "leave it out" },
		{ ds->nested && extract && p->facts->format == FORMAT_SQUASHFS,
		  "nested is for archives, and does not open those in an image", "leave it out" },
		{ ds->nested && !extract && (m != DATASET_METHOD_MOUNT || !plan_is_plain_tar(p)),
		  "nested is for archives that are extracted, and for plain tars that are mounted",
		  facts_is_archive(p->facts) ? "leave it out, or use method=extract" : "leave it out" },
		{ ds->subdir && p->facts->kind != SOURCE_DIR && !extract && m != DATASET_METHOD_MOUNT,
		  "subdir= needs a directory, an archive or an image", "leave it out" },
		{ some && m == DATASET_METHOD_MOUNT, "a mount shows all of the image: include= and "
		  "exclude= have no effect", "method=extract selects, subdir= shows a part" },
		{ some && one && !extract, "include= and exclude= need a directory, a set or an archive",
		  "leave them out" },
		{ some && p->facts->is_remote && p->facts->kind == SOURCE_SET,
		  "include= and exclude= do not select from a set of addresses", "name fewer of them in {}" },
		{ ds->follow && (one || p->facts->is_remote),
		  "links=follow is for directories and sets of a file system", "leave it out" },
		{ ds->follow && link, "a link shows the source as it is: links=follow has no effect",
		  "leave it out, or let the source be copied" },
		{ some && link, "a link shows all of the source: include= and exclude= have no effect",
		  "method=copy selects" },
		{ sha256 && !one, "verify=sha256 is for one file or archive", "leave it out" },
		{ sha256 && link, "a link can't be verified: what it shows may change",
		  "method=copy verifies" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (rules[i].wrong)
			return error_set_hint(err, error_set(err, EINVAL, "%s", rules[i].what),
					      "%s", rules[i].hint);
	}
	return 0;
}

/* Returns whether the user probably did not mean this file: it is a pointer to data, or a web page
 * although its address does not look like one. */
static bool is_hardly_meant(const struct facts *f, const char *source)
{
	return f->other && (!f->other->is_data ||
			    (f->other->is_page && f->is_remote && !magic_names_page(source)));
}

/* Warns about a part of a split archive, which is useless alone. Returns false if the source is
 * none. */
static bool hint_at_parts(struct planner *p)
{
	char fix[HINT_PART_SIZE], shown[512];

	dataset_show_source(p->ds, shown, sizeof(shown));
	if (p->ds->method != DATASET_METHOD_AUTO || p->facts->kind != SOURCE_FILE ||
	    !hint_part(shown, fix, sizeof(fix)))
		return false;
	snprintf(p->plan->hint, sizeof(p->plan->hint),
		 "staged as it is: it is named like a part of a split file; %s", fix);
	plan_why(p, "%s", p->plan->hint);
	return true;
}

/* Explains how to open an archive that is staged as a file, and warns about a file that the user
 * probably did not mean. */
static void hint_at_extract(struct planner *p)
{
	const struct facts *f = p->facts;
	char buf[64];

	if (p->plan->method == DATASET_METHOD_COPY && hint_at_parts(p))
		return;
	if (p->ds->method == DATASET_METHOD_AUTO && is_hardly_meant(f, p->ds->source)) {
		snprintf(p->plan->hint, sizeof(p->plan->hint), "staged as it is: it is %s; %s",
			 f->other->what, f->other->fix);
		plan_why(p, "%s", p->plan->hint);
		return;
	}
	if (p->ds->method != DATASET_METHOD_AUTO || f->kind != SOURCE_FILE ||
	    !facts_is_archive(f) || !p->in->able.can_extract ||
	    p->plan->method == DATASET_METHOD_EXTRACT || plan_is_dest(p, PLAN_TIER_SOURCE))
		return;
	snprintf(p->plan->hint, sizeof(p->plan->hint),
		 "staged as one file: inside it is %s, and its name does not end in %s; "
		 "method=extract unpacks it",
		 describe(f, buf), f->format == FORMAT_ZIP ? ".zip" : ".tar or the like");
	plan_why(p, "%s", p->plan->hint);
}

int plan_choose_method(struct planner *p, struct error *err)
{
	struct plan *plan = p->plan;
	char buf[64];
	int r;

	plan->method = p->ds->method;
	if (plan->method == DATASET_METHOD_AUTO)
		plan->method = auto_method(p);
	plan_why(p, "the source is %s: %s", describe(p->facts, buf),
		 dataset_method_to_string(plan->method));
	hint_at_extract(p);
	plan->kind = p->facts->kind == SOURCE_FILE && (plan->method == DATASET_METHOD_COPY ||
						       plan->method == DATASET_METHOD_LINK)
			     ? SOURCE_FILE
			     : SOURCE_DIR;
	r = check_promise(p, err);
	if (r == 0)
		r = check_able(p, err);
	return r < 0 ? r : check_options(p, err);
}

/* Returns whether reading once for all nodes is impossible: the site or job does not allow it, or
 * the source is not read as a whole. */
static bool can_never_broadcast(const struct plan *plan, const struct plan_input *in)
{
	return in->policy->fan_min_nodes == 0 || in->policy->n_nodes < 2 || !in->policy->keeper ||
	       in->facts->is_remote || in->facts->bytes == 0 ||
	       !strcmp(plan->tier, PLAN_TIER_SOURCE) ||
	       (plan->method == DATASET_METHOD_MOUNT && !plan->copy_first);
}

const char *plan_broadcast_refuse(const struct plan *plan, const struct plan_input *in,
				  uint64_t *extrap, char buf[static PLAN_BROADCAST_WHY_SIZE])
{
	const struct plan_space *space = plan_get_space((struct plan_input *)in, plan->tier);
	const struct policy *pol = in->policy;
	const struct facts *f = in->facts;
	char size[PARSE_SIZE_TEXT], least[PARSE_SIZE_TEXT];
	uint64_t extra = plan->method == DATASET_METHOD_EXTRACT ? f->bytes : PLAN_BROADCAST_STEP;

	if (can_never_broadcast(plan, in))
		return "";
	if (f->kind != SOURCE_FILE)
		return "only one file, archive or image is passed on";
	if (strcmp(plan->tier, PLAN_TIER_MEMORY))
		return "only what goes to memory is passed on";
	if (pol->mem_keep_ms)
		return "some nodes may have a kept copy";
	if (pol->max_rate)
		return "sbcast does not keep the rule's MaxRate";
	if (!in->able.can_broadcast)
		return "passing it on has failed";
	if (pol->n_nodes < pol->fan_min_nodes) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE, "the job has %u nodes, MinNodes is %u",
			 pol->n_nodes, pol->fan_min_nodes);
		return buf;
	}
	if (!pol->fan_always && f->bytes < PLAN_BROADCAST_MIN_SIZE) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE,
			 "%s is less than %s, passing it on takes longer",
			 size_to_string(f->bytes, size),
			 size_to_string(PLAN_BROADCAST_MIN_SIZE, least));
		return buf;
	}
	if (space && space->known &&
	    (space->free_bytes < plan->need_bytes ||
	     space->free_bytes - plan->need_bytes < extra)) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE, "passing it on takes %s more memory, %s",
			 size_to_string(extra, size), space->limit);
		return buf;
	}
	*extrap = extra;
	return NULL;
}
