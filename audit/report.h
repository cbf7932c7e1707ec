/* What came of an audit, in words and for programs. Nothing the service said stands in it but statuses, host names and its version; no secret ever does. */
#ifndef AUDIT_REPORT_H
#define AUDIT_REPORT_H

#include "audit/audit.h"
#include "audit/receipt.h"

/* What the service can be used for. */
enum tri { TRI_UNKNOWN, TRI_NO, TRI_YES };

struct capabilities {
    enum tri reads_anonymously, writes_anonymously, relays, binds_credential, isolates_tenants, isolates_cache, reflects;
    char relays_to[120]; /* the host that it went to; "": none */
    char hands_to[120];  /* the first undeclared host that its answers name */
    size_t covert_bits;  /* of one request's target; 0: not measured */
};

void report_capabilities(const struct audit *a, struct capabilities *out);

/* A table for a terminal: accepted first, then what keeps it from passing, then the rest by severity; the last line is the verdict. */
void report_text(const struct audit *a, bool all, struct buf *out);
/* One object, schema exeat.audit/1 (docs/handoff.md). */
void report_json(const struct audit *a, struct buf *out);
/* One object too: what an attestation keeps of it, beside the verdict. */
void report_attested(const struct audit *a, const struct receipt *receipt, struct buf *out);
/* JUnit XML: a test suite for each group, a failure for what keeps from passing. */
void report_junit(const struct audit *a, struct buf *out);
/* SARIF 2.1.0. */
void report_sarif(const struct audit *a, struct buf *out);
/* One page that needs nothing else, with a policy of its own that keeps it so; the style stands in report_style.c. */
void report_html(const struct audit *a, struct buf *out);
extern const char report_style[];
/* Every exchange, one JSON line each: what was sent, the answer, SHA-256 of both. */
void report_exchanges(const struct audit *a, struct buf *out);
/* One of them. */
void report_exchange(const char *check, const struct turn *x, struct buf *out);

/* The tighter policy of the gateway, as a part of proxy.conf that config check can read; a comment when there is nothing to close. */
void report_policy(const struct audit *a, struct buf *out);

/* docs/checks.md: every check, what it needs, what to do. */
void report_catalogue(struct buf *out);

/* "The service does not pass: ..." */
void report_summary(const struct audit *a, struct buf *out);
/* One sentence of what the budget left unasked, and which would do; nothing when it left nothing. */
void report_unasked(const struct audit *a, struct buf *out);
/* Is it to be shown as a finding: not good, or in the way of passing? */
bool report_is_bad(const struct audit_result *r);
/* As text of XML and HTML alike, in quotes too. What nobody should see move or hide letters (controls, bidi, no UTF-8) becomes "?". */
void report_escape(struct buf *out, const char *text);
/* How many findings have this verdict. */
size_t report_count(const struct audit *a, enum verdict v);

#endif
