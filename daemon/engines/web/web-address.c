/*
 * The table is that of the special-purpose registries of IANA, without what is globally reachable.
 * All is compared as IPv6: IPv4 is ::ffff:a.b.c.d, and what NAT64 and 6to4 carry within is taken
 * out.
 */
#include "daemon/engines/web/web-address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/parse.h"

static const char special[] =
	"0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.0.0.0/24,"
	"192.0.2.0/24,192.88.99.0/24,192.168.0.0/16,198.18.0.0/15,198.51.100.0/24,203.0.113.0/24,"
	"224.0.0.0/4,240.0.0.0/4,"
	"::/96,64:ff9b:1::/48,100::/64,2001::/23,2001:db8::/32,3fff::/20,5f00::/16,fc00::/7,fe80::/"
	"10,"
	"fec0::/10,ff00::/8";

static const unsigned char v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

static void set_v4(unsigned char out[static 16], const void *v4)
{
	memcpy(out, v4_prefix, sizeof(v4_prefix));
	memcpy(out + 12, v4, 4);
}

static bool read_address(const struct sockaddr *sa, unsigned char out[static 16])
{
	static const unsigned char nat64[12] = { 0, 0x64, 0xff, 0x9b };

	if (sa->sa_family == AF_INET) {
		set_v4(out, &((const struct sockaddr_in *)(const void *)sa)->sin_addr);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	memcpy(out, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	if (!memcmp(out, nat64, sizeof(nat64)))
		memcpy(out, v4_prefix, sizeof(v4_prefix));
	else if (out[0] == 0x20 && out[1] == 0x02)
		set_v4(out, (unsigned char[4]){ out[2], out[3], out[4], out[5] });
	return true;
}

/* Parses a network such as "10.0.0.0/8", which has n bytes. */
static bool read_network(const char *text, size_t n, unsigned char out[static 16], unsigned *bitsp)
{
	char copy[64], *slash;
	unsigned char v4[4];
	uint32_t bits;
	bool is_v4;

	if (n >= sizeof(copy))
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	is_v4 = inet_pton(AF_INET, copy, v4) == 1;
	if (!is_v4 && inet_pton(AF_INET6, copy, out) != 1)
		return false;
	if (is_v4)
		set_v4(out, v4);
	bits = is_v4 ? 32 : 128;
	if (slash && (parse_uint32(slash + 1, bitsp) < 0 || *bitsp > bits))
		return false;
	*bitsp = (slash ? *bitsp : bits) + (is_v4 ? 96 : 0);
	return true;
}

static bool has_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
	unsigned char mask = (unsigned char)(0xff00 >> (bits % 8));

	if (memcmp(a, b, bits / 8))
		return false;
	return bits % 8 == 0 || (a[bits / 8] & mask) == (b[bits / 8] & mask);
}

static bool is_in(const unsigned char *address, const char *networks)
{
	unsigned char network[16];
	unsigned bits;
	size_t n;

	for (; *networks; networks += n + (networks[n] == ',')) {
		n = strcspn(networks, ",");
		if (read_network(networks, n, network, &bits) && has_prefix(address, network, bits))
			return true;
	}
	return false;
}

bool web_address_is_in(const struct sockaddr *sa, const char *networks)
{
	unsigned char address[16];

	return read_address(sa, address) && is_in(address, networks);
}

bool web_address_is_public(const struct sockaddr *sa)
{
	unsigned char address[16];

	return read_address(sa, address) && !is_in(address, special);
}
