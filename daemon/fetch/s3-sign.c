#include "daemon/fetch/s3-sign.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nettle/hmac.h>
#include <nettle/sha2.h>

static void to_hex(const uint8_t *data, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", data[i]);
}

static void sha256_hex(const char *text, char out[static 65])
{
	struct sha256_ctx c;
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_init(&c);
	sha256_update(&c, strlen(text), (const uint8_t *)text);
	sha256_digest(&c, sizeof(digest), digest);
	to_hex(digest, sizeof(digest), out);
}

static void hmac(const void *key, size_t n, const char *text, uint8_t out[static 32])
{
	struct hmac_sha256_ctx c;

	hmac_sha256_set_key(&c, n, key);
	hmac_sha256_update(&c, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&c, 32, out);
}

/* Derives the signing key: an HMAC chain over day, region, service and a fixed word. */
static void derive_key(const struct s3_sign *s, const char *day, uint8_t key[static 32])
{
	char first[sizeof(s->keys->secret) + 8];

	snprintf(first, sizeof(first), "AWS4%s", s->keys->secret);
	hmac(first, strlen(first), day, key);
	hmac(key, 32, s->region, key);
	hmac(key, 32, "s3", key);
	hmac(key, 32, "aws4_request", key);
	explicit_bzero(first, sizeof(first));
}

/* Writes the canonical request, which both sides compute. Header names must be in order. */
static int canonical(const struct s3_sign *s, const char *date, const char *names, char *buf,
		     size_t size)
{
	const char *token = s->keys->token;
	int n;

	n = snprintf(buf, size,
		     "GET\n%s\n%s\nhost:%s\n%s%s%sx-amz-content-sha256:" S3_EMPTY_SHA256
		     "\nx-amz-date:%s\n%s%s%s\n%s\n" S3_EMPTY_SHA256,
		     s->path, s->query, s->host, s->range ? "range:" : "", s->range ? s->range : "",
		     s->range ? "\n" : "", date, *token ? "x-amz-security-token:" : "", token,
		     *token ? "\n" : "", names);
	return n < 0 || (size_t)n >= size ? -ENOSPC : 0;
}

int s3_sign(const struct s3_sign *s, char date[static 17], char *authorization, size_t size)
{
	char text[16384], names[96], scope[160], day[9], hash[65];
	uint8_t key[32], signature[32];
	struct tm tm;
	int n;

	gmtime_r(&s->now, &tm);
	strftime(date, 17, "%Y%m%dT%H%M%SZ", &tm);
	snprintf(day, sizeof(day), "%.8s", date);
	snprintf(names, sizeof(names), "host;%sx-amz-content-sha256;x-amz-date%s",
		 s->range ? "range;" : "", s->keys->token[0] ? ";x-amz-security-token" : "");
	n = snprintf(scope, sizeof(scope), "%s/%s/s3/aws4_request", day, s->region);
	if ((size_t)n >= sizeof(scope) || canonical(s, date, names, text, sizeof(text)) < 0)
		return -ENOSPC;
	sha256_hex(text, hash);
	snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
	derive_key(s, day, key);
	hmac(key, sizeof(key), text, signature);
	to_hex(signature, sizeof(signature), hash);
	explicit_bzero(key, sizeof(key));
	n = snprintf(authorization, size,
		     "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s",
		     s->keys->access, scope, names, hash);
	return n < 0 || (size_t)n >= size ? -ENOSPC : 0;
}

int s3_encode(const char *text, int keep_slash, char *buf, size_t size)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	size_t n = 0;

	for (; *text; text++) {
		if (n + 4 > size)
			return -ENOSPC;
		if (strchr(plain, *text) || (*text == '/' && keep_slash))
			buf[n++] = *text;
		else
			n += (size_t)sprintf(buf + n, "%%%02X", (unsigned char)*text);
	}
	if (n >= size)
		return -ENOSPC;
	buf[n] = '\0';
	return 0;
}
