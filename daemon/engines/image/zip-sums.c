/*
 * Of each member that is being read, the parts that were read are kept, each with its checksum;
 * parts that touch each other become one (zip_sums_join()). A member of one part is complete.
 *
 * The number of parts has a bound. If there are too many, the sums of the member that was not read
 * for the longest time are dropped. The kernel may have some of its bytes in memory and never ask
 * for them again. So the next reader of another byte has the whole member read here. Without that
 * byte no reader has all of them.
 */
#include "daemon/engines/image/zip-sums.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/list.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/inflate.h"

#define CRC_POLY 0xedb88320u
#define CRC_ONE (1u << 31)  /* x^0 */
#define CRC_BYTE (1u << 23) /* x^8 */

enum {
	SUMS_N_BUCKETS = 4096,
	SUMS_MAX_PARTS = 32768, /* of all members; with the members' data, they take about 4 MiB */
	SUMS_MAX_OF_ONE = 4096,
	SUMS_MAX_AGAIN = 64 << 20, /* a larger member is not read again */
	SUMS_PIECE = 256 << 10,
};

struct part {
	uint64_t from, to;
	uint32_t crc;
};

struct sums {
	uint32_t i;
	struct sums *next; /* next in the same bucket */
	struct list lru;
	struct part *parts; /* sorted by from; no part touches the next one */
	size_t n_parts, room;
};

struct zip_sums {
	struct archive_index *index;
	int fd;
	atomic_uchar *states; /* states of all entries */
	pthread_mutex_t lock; /* for all below */
	struct sums *buckets[SUMS_N_BUCKETS];
	struct list lru; /* the oldest entry is first */
	size_t n_parts;
};

/* ---- checksums ---- */

/* Multiplies two checksums. They are polynomials over bits modulo CRC_POLY, with the highest power
 * in the lowest bit. n zero bytes after the data multiply a checksum by x^(8n). The inversions at
 * both ends cancel each other. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = CRC_ONE; bit > 0; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ CRC_POLY : b >> 1;
	}
	return product;
}

uint32_t zip_sums_join(uint32_t a, uint32_t b, uint64_t n)
{
	uint32_t power = CRC_BYTE;

	for (; n > 0 && a != 0; n >>= 1) {
		if (n & 1)
			a = multiply(power, a);
		power = multiply(power, power);
	}
	return a ^ b;
}

/* ---- new, and states ---- */

int zip_sums_new(struct zip_sums **zp, struct archive_index *x, int fd)
{
	_cleanup_(zip_sums_freep) struct zip_sums *z = calloc(1, sizeof(*z));
	struct archive_counts counts;

	if (!z)
		return -ENOMEM;
	archive_index_get_counts(x, &counts);
	z->index = x;
	z->fd = fd;
	list_init(&z->lru);
	pthread_mutex_init(&z->lock, NULL);
	z->states = calloc(counts.n_records, sizeof(*z->states));
	if (!z->states)
		return -ENOMEM;
	*zp = steal_ptr(z);
	return 0;
}

enum zip_sums_state zip_sums_get_state(const struct zip_sums *z, uint32_t i)
{
	return atomic_load_explicit(&z->states[i], memory_order_acquire);
}

static void set_state(struct zip_sums *z, uint32_t i, enum zip_sums_state state)
{
	atomic_store_explicit(&z->states[i], (unsigned char)state, memory_order_release);
}

bool zip_sums_wants(const struct zip_sums *z, uint32_t i)
{
	const struct archive_record *rec = archive_index_get(z->index, i);
	enum zip_sums_state state = zip_sums_get_state(z, i);

	/* packed is 0 except in zips */
	return rec->packed > 0 && !rec->is_deflated && state != ZIP_SUMS_RIGHT &&
	       state != ZIP_SUMS_LEFT;
}

/* ---- members; the lock is held ---- */

static struct sums **find(struct zip_sums *z, uint32_t i)
{
	struct sums **p = &z->buckets[i % SUMS_N_BUCKETS];

	while (*p && (*p)->i != i)
		p = &(*p)->next;
	return p;
}

static void forget(struct zip_sums *z, struct sums *s)
{
	*find(z, s->i) = s->next;
	list_remove(&s->lru);
	z->n_parts -= s->n_parts;
	free(s->parts);
	free(s);
}

static void lose(struct zip_sums *z, struct sums *s)
{
	bool is_large = archive_index_get(z->index, s->i)->size > SUMS_MAX_AGAIN;

	set_state(z, s->i, is_large ? ZIP_SUMS_LEFT : ZIP_SUMS_LOST);
	forget(z, s);
}

static struct sums *get_sums(struct zip_sums *z, uint32_t i)
{
	struct sums **p = find(z, i), *s = *p;

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->i = i;
		list_init(&s->lru);
		*p = s;
	}
	list_remove(&s->lru);
	list_append(&z->lru, &s->lru);
	return s;
}

void zip_sums_free(struct zip_sums *z)
{
	if (!z)
		return;
	while (!list_is_empty(&z->lru))
		forget(z, list_entry(z->lru.next, struct sums, lru));
	pthread_mutex_destroy(&z->lock);
	free(z->states);
	free(z);
}

/* ---- parts; the lock is held ---- */

/* Returns the first part that ends after pos; n_parts: there is none. */
static size_t find_part(const struct sums *s, uint64_t pos)
{
	size_t from = 0, to = s->n_parts;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (s->parts[middle].to <= pos)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Finds the first part of [*fromp, *top) that was not read before, and returns it in *fromp and
 * *top. Returns false if there is none. */
static bool find_gap(const struct sums *s, uint64_t *fromp, uint64_t *top)
{
	size_t k = find_part(s, *fromp);

	for (; k < s->n_parts && s->parts[k].from <= *fromp; k++)
		*fromp = s->parts[k].to;
	if (k < s->n_parts && s->parts[k].from < *top)
		*top = s->parts[k].from;
	return *fromp < *top;
}

static void remove_part(struct zip_sums *z, struct sums *s, size_t k)
{
	memmove(&s->parts[k], &s->parts[k + 1], (--s->n_parts - k) * sizeof(*s->parts));
	z->n_parts--;
}

/* Joins part k and the next one, if they touch. */
static void join(struct zip_sums *z, struct sums *s, size_t k)
{
	struct part *a = &s->parts[k], *b = a + 1;

	if (k + 1 >= s->n_parts || a->to != b->from)
		return;
	a->crc = zip_sums_join(a->crc, b->crc, b->to - b->from);
	a->to = b->to;
	remove_part(z, s, k + 1);
}

static int insert(struct zip_sums *z, struct sums *s, const struct part *part)
{
	size_t k = find_part(s, part->from);

	if (s->n_parts == s->room) {
		size_t room = s->room ? 2 * s->room : 2;
		void *more = reallocarray(s->parts, room, sizeof(*s->parts));

		if (!more)
			return -ENOMEM;
		s->parts = more;
		s->room = room;
	}
	memmove(&s->parts[k + 1], &s->parts[k], (s->n_parts++ - k) * sizeof(*s->parts));
	s->parts[k] = *part;
	z->n_parts++;
	join(z, s, k);
	if (k > 0)
		join(z, s, k - 1);
	return 0;
}

static int finish(struct zip_sums *z, uint32_t i, uint32_t crc)
{
	bool is_right = crc == archive_index_get(z->index, i)->crc;

	set_state(z, i, is_right ? ZIP_SUMS_RIGHT : ZIP_SUMS_WRONG);
	return is_right ? 0 : -EBADMSG;
}

/* ---- reads ---- */

static bool is_unknown(const struct zip_sums *z, uint32_t i)
{
	return zip_sums_get_state(z, i) == ZIP_SUMS_UNKNOWN;
}

/* Returns 1: there is a gap; 0: all bytes were read before, or no more sums are needed; -ENOMEM. */
static int look_for_gap(struct zip_sums *z, uint32_t i, uint64_t *fromp, uint64_t *top)
{
	struct sums *s;
	int r = 0;

	pthread_mutex_lock(&z->lock);
	if (is_unknown(z, i)) {
		s = get_sums(z, i);
		r = s ? find_gap(s, fromp, top) : -ENOMEM;
	}
	pthread_mutex_unlock(&z->lock);
	return r;
}

/* Adds a part, unless another thread has added it. The lock must be held. */
static int add_part(struct zip_sums *z, uint32_t i, const struct part *part)
{
	uint64_t from = part->from, to = part->to;
	struct sums *s = get_sums(z, i);
	int r;

	if (!s)
		return -ENOMEM;
	if (!find_gap(s, &from, &to) || from != part->from || to != part->to)
		return 0;
	r = insert(z, s, part);
	if (r < 0)
		return r;
	if (s->parts[0].from == 0 && s->parts[0].to == archive_index_get(z->index, i)->size) {
		r = finish(z, i, s->parts[0].crc);
		forget(z, s);
	} else if (s->n_parts > SUMS_MAX_OF_ONE) {
		lose(z, s);
	}
	while (z->n_parts > SUMS_MAX_PARTS)
		lose(z, list_entry(z->lru.next, struct sums, lru));
	return r;
}

static int add_unknown(struct zip_sums *z, uint32_t i, uint64_t pos, const void *data, size_t n)
{
	struct part part = { .from = pos, .to = pos + n };
	int r;

	while ((r = look_for_gap(z, i, &part.from, &part.to)) == 1) {
		part.crc = inflate_add_crc(0, (const char *)data + (part.from - pos),
					   (size_t)(part.to - part.from));
		pthread_mutex_lock(&z->lock);
		r = is_unknown(z, i) ? add_part(z, i, &part) : 0;
		pthread_mutex_unlock(&z->lock);
		if (r < 0)
			break;
		part.from = pos;
		part.to = pos + n;
	}
	return r;
}

/* Reads the bytes again whose sums were lost. */
static int add_again(struct zip_sums *z, uint32_t i)
{
	const struct archive_record *rec = archive_index_get(z->index, i);
	_cleanup_(freep) void *buf = malloc(SUMS_PIECE);
	uint32_t crc = 0;
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	for (uint64_t at = 0; at < rec->size; at += (uint64_t)n) {
		n = pread(z->fd, buf, rec->size - at < SUMS_PIECE ? rec->size - at : SUMS_PIECE,
			  (off_t)(rec->start + at));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n < 0 ? -errno : -EIO;
		crc = inflate_add_crc(crc, buf, (size_t)n);
	}
	return finish(z, i, crc);
}

int zip_sums_add(struct zip_sums *z, uint32_t i, uint64_t pos, const void *data, size_t n)
{
	int r = 0;

	if (zip_sums_get_state(z, i) == ZIP_SUMS_UNKNOWN)
		r = add_unknown(z, i, pos, data, n);
	/* the sums may have been lost while the last bytes were added */
	if (r == 0 && zip_sums_get_state(z, i) == ZIP_SUMS_LOST)
		r = add_again(z, i);
	return r == 0 && zip_sums_get_state(z, i) == ZIP_SUMS_WRONG ? -EBADMSG : r;
}
