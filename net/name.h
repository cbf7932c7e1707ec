/*
 * Host names: one canonical spelling. Lower case, IDNA 2008 A-labels
 * (libidn2), one trailing dot removed, letters-digits-hyphens only. Everything
 * else is refused, not guessed. IP literals are not names. Pure.
 */
#ifndef NET_NAME_H
#define NET_NAME_H

#include "base/fault.h"
#include "base/slice.h"

#define NAME_MAX_LEN 253

/*
 * Canonical form of a host as the wire or the configuration has it. Unicode must already be IDNA 2008 (RFC 5891 5): no
 * mapping, so full-width letters and ideographic full stops are refused; A-labels must be valid. out is at least NAME_MAX_LEN + 1
 * bytes and gets a NUL-terminated text. Refused (FAULT_REFUSED, host_invalid): empty,
 * empty labels, labels over 63, total over 253, anything outside LDH after IDNA,
 * leading or trailing hyphens, a percent sign, IPv4 and IPv6 literals in any form
 * (also "0x7f.1", "127.1", "2130706433": a last label that is all digits or 0x...), underscore.
 */
bool name_canonical(struct slice host, char out[NAME_MAX_LEN + 1], struct fault *why);

/*
 * Split "host", "host:port" or "[v6]:port" (authority without userinfo; RFC 3986
 * 3.2). *port is fallback when none is written; an empty port, zero and leading zeros are refused, and
 * userinfo ("@") always. *host borrows and is not judged yet; that of a literal keeps its brackets, so that
 * name_canonical refuses it. why->reason: host_invalid, request_malformed.
 */
bool name_split_authority(struct slice authority, uint16_t fallback, struct slice *host, uint16_t *port,
                          struct fault *why);

/* Does a canonical name match a canonical pattern: "npm.example" or "*.npm.example" (one or more labels below)? */
bool name_matches(struct slice pattern, struct slice name);

#endif
