#include "daemon/engines/web/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/strutil.h"
#include "common/util/url.h"
#include "daemon/engines/web/web-address.h"

static void take_rule(struct web *web, char *value)
{
	struct web_rule *rule = &web->rules[web->n_rules++];
	char *tab = strchr(value, '\t');

	rule->pattern = value;
	rule->networks = tab ? tab + 1 : value + strlen(value);
	if (tab)
		*tab = '\0';
}

/* Takes a line. Unknown words come from a newer stagingd, and never make the rules stricter. */
static void take_line(struct web *web, const char *word, char *value)
{
	if (!strcmp(word, "allow"))
		take_rule(web, value);
	else if (!strcmp(word, "proxy"))
		web->proxy = value;
	else if (!strcmp(word, "cafile"))
		web->cafile = value;
	else if (!strcmp(word, "networks"))
		web->s3.networks = value;
	else if (!strcmp(word, "endpoint"))
		web->endpoint = value;
	else if (!strcmp(word, "region"))
		web->region = value;
	else if (!strcmp(word, "anonymous"))
		web->anonymous = !strcmp(value, "yes");
}

int web_new_from_text(struct web **webp, const char *text, struct error *err)
{
	_cleanup_(web_freep) struct web *web = calloc(1, sizeof(*web));
	char *save = NULL, *line, *tab;

	if (web) {
		web->text = strdup(text);
		web->rules = calloc(strutil_count_lines(text), sizeof(*web->rules));
	}
	if (!web || !web->text || !web->rules)
		return error_set(err, ENOMEM, "out of memory");
	web->s3.networks = web->text + strlen(text);
	web->proxy = web->cafile = web->endpoint = web->region = "";
	for (line = strtok_r(web->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		tab = strchr(line, '\t');
		if (!tab)
			continue;
		*tab = '\0';
		take_line(web, line, tab + 1);
	}
	web->s3.pattern = strutil_printf("%s/**", web->endpoint);
	if (!web->s3.pattern)
		return error_set(err, ENOMEM, "out of memory");
	*webp = steal_ptr(web);
	return 0;
}

void web_free(struct web *web)
{
	if (!web)
		return;
	free(web->rules);
	free(web->s3.pattern);
	free(web->text);
	free(web);
}

char *web_show(const char *url, char *buf, size_t size)
{
	/* paths and keys of S3 may contain ? and # */
	size_t n = strstr(url, "://") && strncmp(url, "s3://", 5) ? strcspn(url, "?#")
								  : strlen(url);

	snprintf(buf, size, "%.*s%s", (int)(n < size - 5 ? n : size - 5), url,
		 url[n] ? "?..." : "");
	return buf;
}

int web_check_url(const struct web *web, const char *url, const struct web_rule **rulep,
		  struct error *err)
{
	struct error why = ERROR_INIT;
	enum url_scheme scheme = url_scheme_of(url);
	struct url parts;
	char shown[512];

	web_show(url, shown, sizeof(shown));
	if (scheme != URL_HTTP && scheme != URL_HTTPS)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "%s is neither http:// nor https://", shown);
	if (url_parse(&parts, url, &why) < 0)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM, "%s: %s",
				  strchr(shown, '@') ? "an address" : shown, why.text);
	for (size_t i = 0; i < web->n_rules; i++) {
		if (!strcmp(web->rules[i].pattern, "*") || url_match(web->rules[i].pattern, url)) {
			*rulep = &web->rules[i];
			return 0;
		}
	}
	error_exit(err, STAGE_EXIT_REFUSED, EPERM, "no rule of the site allows %s", shown);
	return error_set_hint(err, -EPERM, "stagectl explain shows what the site allows");
}

/* Returns true if the rule's host is an address, which is allowed then. */
static bool names_address(const struct web_rule *rule, const struct sockaddr *sa)
{
	struct url url;
	char host[64];

	if (url_parse(&url, rule->pattern, NULL) < 0 || url.n_host >= sizeof(host))
		return false;
	memcpy(host, url.host, url.n_host);
	host[url.n_host] = '\0';
	if (host[0] == '[') {
		memmove(host, host + 1, url.n_host);
		host[strcspn(host, "]")] = '\0';
	}
	return web_address_is_in(sa, host);
}

bool web_rule_allows(const struct web_rule *rule, const struct sockaddr *sa)
{
	return web_address_is_public(sa) || web_address_is_in(sa, rule->networks) ||
	       names_address(rule, sa);
}

bool web_rule_allows_text(const struct web_rule *rule, const char *address)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		return web_rule_allows(rule, (const struct sockaddr *)&v4);
	return inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 &&
	       web_rule_allows(rule, (const struct sockaddr *)&v6);
}
