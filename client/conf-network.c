/*
 * A worker refuses a server whose address is not public, unless Networks= of the rule has it.
 * daemon/engines/web/web-address.c decides which addresses are public. This file knows only the
 * most frequent private networks.
 */
#include "client/conf-advice.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/config/conf.h"
#include "common/util/error.h"
#include "common/util/url.h"

static bool is_private_v4(uint32_t a)
{
	return a >> 24 == 10 || a >> 24 == 127 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8 ||
	       a >> 16 == 0xa9fe || a >> 22 == 0x191;
}

static bool is_private(const struct sockaddr *sa)
{
	const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;

	if (sa->sa_family == AF_INET)
		return is_private_v4(ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr));
	return sa->sa_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_LINKLOCAL(a) ||
					     (a->s6_addr[0] & 0xfe) == 0xfc);
}

/* Writes a private address of the host to `address`. A numeric host needs no name service. */
static bool find_private(const char *host, int flags, char *address, size_t size)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	struct addrinfo *all = NULL;
	bool found = false;

	if (getaddrinfo(host, NULL, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *i = all; i && !found; i = i->ai_next)
		found = is_private(i->ai_addr) &&
			getnameinfo(i->ai_addr, i->ai_addrlen, address, (socklen_t)size, NULL, 0,
				    NI_NUMERICHOST) == 0;
	freeaddrinfo(all);
	return found;
}

/* If Match= has a numeric address, this address is allowed without Networks=. */
static void advise_host(const struct conf *conf, const struct conf_source *s, const char *key,
			const char *value, conf_advice_fn *fn, void *arg)
{
	char host[256], address[64], hint[128], text[ERROR_MAX_SIZE];
	char with_path[1024];
	const char *file = "";
	unsigned line = 0;
	struct url url;
	int n;

	snprintf(with_path, sizeof(with_path), "%s/", value); /* an endpoint has no path */
	if (url_parse(&url, with_path, NULL) < 0 || url.scheme == URL_S3 ||
	    url.n_host >= sizeof(host))
		return;
	n = url.host[0] == '[' ? (int)url.n_host - 2 : (int)url.n_host;
	snprintf(host, sizeof(host), "%.*s", n, url.host + (url.host[0] == '['));
	if (!strcmp(key, "Match") && find_private(host, AI_NUMERICHOST, address, sizeof(address)))
		return;
	if (!find_private(host, 0, address, sizeof(address)))
		return;
	(void)conf_get_place(conf, "source", s->name, &file, &line);
	snprintf(
		text, sizeof(text),
		"%s:%u: [source %s] %s=%s leads to the address %s, which is not public, so nothing "
		"is fetched from there",
		file, line, s->name, key, value, address);
	snprintf(hint, sizeof(hint), "add Networks=%s, or its network", address);
	fn(arg, hint, text);
}

void conf_advise_networks(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *s = &conf->sources[i];

		if (*s->networks || *s->proxy)
			continue;
		advise_host(conf, s, "Match", s->match, fn, arg);
		advise_host(conf, s, "Endpoint", s->endpoint, fn, arg);
	}
}
