/*
 * parse: text from outside to numbers and back. Rest, sign and overflow are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/escape.h"

/* Decimal digits only, no sign, no rest. 0, -EINVAL or -ERANGE. */
int parse_uint64(const char *s, uint64_t *valuep);
int parse_uint32(const char *s, uint32_t *valuep);

/* Number with an optional K, M, G, T (powers of 1024; also KiB, KB, kb …). "1.5G" is fine. */
int parse_size(const char *s, uint64_t *bytesp);

/* As Slurm's --mem: a number alone is megabytes, 0 is all of the node's. */
int parse_slurm_memory(const char *s, uint64_t *bytesp);

/* 90 (seconds), 90s, 5m, 2h, 1d, 500ms, 1h30m. Milliseconds out. */
int parse_duration(const char *s, uint64_t *msp);

/* yes/no/true/false/on/off/1/0, without case. */
int parse_bool(const char *s, bool *valuep);

/* "12.3 GiB", "910 B"; for people. Returns buf. */
#define PARSE_SIZE_TEXT 32
char *size_to_string(uint64_t bytes, char buf[static PARSE_SIZE_TEXT]);

/* "1:10", "2:03:04", "0:07". Returns buf. */
#define PARSE_DURATION_TEXT 32
char *duration_to_string(uint64_t ms, char buf[static PARSE_DURATION_TEXT]);

/* The same, with tenths of a second below ten seconds: "0.4 s", "0:10". Returns buf. */
char *duration_to_tenths(uint64_t ms, char buf[static PARSE_DURATION_TEXT]);
