/*
 * s3-sign: computes signature version 4 of a GET request for S3. It is pure, because the caller
 * passes the time.
 *
 * libcurl can sign requests since 7.75. It is not used, because its canonical request differs
 * between versions, and the signature must be right with all of them.
 */
#pragma once

#include <stddef.h>
#include <time.h>

#include "common/protocol/keys.h"

#define S3_SIGN_MAX 2048

struct s3_sign {
	const struct keys *keys;
	const char *region;
	const char *host;  /* value of the Host header: with the port unless it is the scheme's
			    * default */
	const char *path;  /* encoded, begins with "/" */
	const char *query; /* encoded, its parameters in byte order; "": none */
	const char *range; /* NULL: no Range header */
	time_t now;
};

#define S3_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* Writes the values of x-amz-date and Authorization. The caller also sends x-amz-content-sha256
 * (S3_EMPTY_SHA256) and, if the keys have a token, x-amz-security-token. Returns 0, or -ENOSPC: too
 * long. */
int s3_sign(const struct s3_sign *s, char date[static 17], char *authorization, size_t size);

/* Percent-encodes all characters but letters, digits, -._~ and, with keep_slash, "/". Returns 0, or
 * -ENOSPC: buf is too small. */
int s3_encode(const char *text, int keep_slash, char *buf, size_t size);
