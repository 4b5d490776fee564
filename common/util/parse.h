/*
 * parse: converts text to numbers and back. A sign, other characters and an overflow are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/escape.h"

/* Parse decimal digits only; no sign, no other characters. Return 0, -EINVAL or -ERANGE. */
int parse_uint64(const char *s, uint64_t *valuep);
int parse_uint32(const char *s, uint32_t *valuep);

/* Parses a number with an optional K, M, G, T (powers of 1024; also KiB, KB, kb …), such as
 * "1.5G". */
int parse_size(const char *s, uint64_t *bytesp);

/* Parses a value of Slurm's --mem: without a unit it is in megabytes; 0 means all memory of the
 * node. */
int parse_slurm_memory(const char *s, uint64_t *bytesp);

/* Parses 90 (seconds), 90s, 5m, 2h, 1d, 500ms or 1h30m. */
int parse_duration(const char *s, uint64_t *msp);

/* Parses yes/no/true/false/on/off/1/0, ignoring case. */
int parse_bool(const char *s, bool *valuep);

/* Writes "12.3 GiB" or "910 B", for people. Returns buf. */
#define PARSE_SIZE_TEXT 32
char *size_to_string(uint64_t bytes, char buf[static PARSE_SIZE_TEXT]);

/* Writes "1:10", "2:03:04" or "0:07". Returns buf. */
#define PARSE_DURATION_TEXT 32
char *duration_to_string(uint64_t ms, char buf[static PARSE_DURATION_TEXT]);

/* Does the same, but below ten seconds with tenths of a second: "0.4 s", "0:10". Returns buf. */
char *duration_to_tenths(uint64_t ms, char buf[static PARSE_DURATION_TEXT]);
