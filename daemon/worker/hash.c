#include "daemon/worker/hash.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <nettle/sha2.h>

#include "common/error.h"

struct hash {
	struct sha256_ctx sha;
};

int hash_new(struct hash **hp)
{
	struct hash *h = malloc(sizeof(*h));

	if (!h)
		return -ENOMEM;
	sha256_init(&h->sha);
	*hp = h;
	return 0;
}

void hash_free(struct hash *h)
{
	free(h);
}

void hash_add(struct hash *h, const void *data, size_t size)
{
	sha256_update(&h->sha, size, data);
}

void hash_get(struct hash *h, char text[static HASH_TEXT_SIZE])
{
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_digest(&h->sha, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
}

int hash_check(struct hash *h, const char *expected, const char *what, struct error *err)
{
	char text[HASH_TEXT_SIZE];

	hash_get(h, text);
	if (!strcmp(text, expected))
		return 0;
	error_set(err, EBADMSG, "%s: its SHA-256 is %s, not %s", what, text, expected);
	return error_mend(err, -EBADMSG, "check the sum in verify=, or make or copy it again");
}
