/*
 * privops-input: reads an input as the privileged operations of a manager. The operations follow
 * the first byte; each has a head of a fixed size. The targets that use it differ in what is below
 * the keeper.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/protocol/keeper-privops.h"

#define PRIVOPS_INPUT_MAX 12 /* privileged operations of one input that are done */

static inline void privops_input_take(const uint8_t **datap, const uint8_t *end, void *to,
				      size_t size)
{
	const size_t n = (size_t)(end - *datap) < size ? (size_t)(end - *datap) : size;

	memset(to, 0, size);
	memcpy(to, *datap, n);
	*datap += n;
}

/* Numbers are small or any; the text ends, or fills its room. *luckp: bits that decide what goes
 * well. */
static inline void privops_input_read(const uint8_t **datap, const uint8_t *end, struct privop *a,
				      uint32_t *luckp)
{
	struct {
		uint8_t how, n_fds, kind, dir, dir2, name, name2;
		int8_t n[3];
		uint8_t luck[4];
		uint8_t n_text;
	} p;

	privops_input_take(datap, end, &p, sizeof(p));
	memcpy(luckp, p.luck, sizeof(*luckp));
	*a = (struct privop){ .kind = p.kind,
			      .dir = p.dir,
			      .dir2 = p.dir2,
			      .name = p.name,
			      .name2 = p.name2,
			      .uid = p.how & 8 ? 0 : 1000,
			      .n = { p.n[0], p.n[1], p.n[2] } };
	if (p.how & 1)
		privops_input_take(datap, end, a->n, sizeof(a->n));
	if (p.how & 2)
		privops_input_take(datap, end, &a->dir,
				   offsetof(struct privop, n) - offsetof(struct privop, dir));
	memset(a->text, p.how & 4 ? 'x' : 0, sizeof(a->text));
	if ((size_t)(end - *datap) < p.n_text)
		p.n_text = (uint8_t)(end - *datap);
	privops_input_take(datap, end, a->text, p.n_text);
}
