/*
 * pax-records: the records "25 ctime=1084839148.1212\n" of a pax header, one after the other. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pax_record {
	const char *key, *value; /* without a NUL */
	size_t key_size, value_size;
};

/* Takes the first record from the data. Returns false if it is damaged. */
bool pax_records_next(const char **datap, size_t *sizep, struct pax_record *rec);

bool pax_record_is(const struct pax_record *rec, const char *key);

/* Returns true for owners, times other than mtime, attributes and ACLs, which are not staged. */
bool pax_record_is_passed_over(const struct pax_record *rec);

/* Reads a number. Returns false if there is no digit, another character, or a number that is too
 * large. */
bool pax_read_digits(const char *s, size_t n, uint64_t *vp);

/* Reads a time such as "1234567890.123456789" or "-1.25", rounded down. */
bool pax_read_time(const char *s, size_t n, int64_t *secp, long *nsp);
