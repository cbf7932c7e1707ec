/* RP: is a credential held to who shows it, and once? */
#include "audit/check.h"
#include "audit/probes.h"
#include "audit/state.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void send_twice(struct evidence *e)
{
    if (!token_counts(e))
        return;
    ask_once(e, token_place(e)->good, (struct probe){.path = token_place(e)->path, .who = WHO_FIRST, .variant = "first"});
    ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_FIRST, .variant = "again, on another connection"});
}

static void judge_twice(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, is_let_in(token_place(e), e->list[1]) ? "the same credential is accepted twice, as bearer credentials are" : "the same credential is refused the second time");
}

static void send_certificate_bound(struct evidence *e)
{
    if (token_can_be_made(e))
        token_show(e, &(struct mold){.claims = "{\"cnf\":{\"x5t#S256\":\"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2\"}}"}, "cnf of a certificate, without one", 0);
}

/* ---- RP-8 ---- */

static void send_upload_twice(struct evidence *e)
{
    struct written w = {0};
    const struct turn *first, *again;

    if (e->target->dialect != DIALECT_NPM) {
        evidence_na(e, "what it takes is named by the request (PUT, or a digest): the same again is the same thing");
        return;
    }
    if (!write_whole(e, "write", good_or_nobody(e), &w))
        return;
    first = w.answer;
    if (!turn_is_2xx(first)) {
        evidence_na(e, "the credential may not write");
        return;
    }
    again = write_again(e, &w);
    write_undo(e, &w);
    e->number = again->status;
}

static void judge_upload_twice(const struct evidence *e, struct finding *f)
{
    if (e->number / 100 == 2)
        finding_set(f, VERDICT_WEAK, "the same upload is taken twice: %lld", (long long)e->number);
    else
        finding_set(f, VERDICT_PASS, "the same upload is refused the second time: %lld", (long long)e->number);
}

/* ---- RP-9 ---- */

static void send_from_places(struct evidence *e)
{
    size_t n = target_count(e->target, "sources");

    if (!token_counts(e))
        return;
    if (n < 2) {
        evidence_missing(e, "the manifest has not two addresses to ask from (sources)");
        return;
    }
    for (size_t i = 0; i < n; i++)
        ask(e, (struct probe){.path = token_place(e)->path, .who = WHO_FIRST, .source = target_text_at(e->target, "sources", i), .variant = words(e, "from %s", target_text_at(e->target, "sources", i))});
}

static void judge_from_places(const struct evidence *e, struct finding *f)
{
    finding_set(f, VERDICT_PASS, "the credential is worth the same from every address, or nothing outside");
    for (size_t i = 1; i < e->n; i++)
        if (!turn_alike(e->list[0], e->list[i]) && is_let_in(token_place(e), e->list[0]))
            finding_worsen(f, VERDICT_WEAK, "the credential is worth more from the gateway's address: %d, elsewhere %d", e->list[0]->status, e->list[i]->status);
}

#define BIND "Have the gateway make the token (assert) for 60 s; sandboxes never hold it."

static const struct check checks[] = {
    {"RP-1", SEVERITY_INFO, 0, send_twice, judge_twice, "Can a credential be shown again?", "RFC 6750, JWT-SVID 7.1", "", BIND},
    {"RP-2", SEVERITY_HIGH, RUN_ISSUER, NULL, NULL, "Can a DPoP proof be shown again?", "RFC 9449 4.3, 8, 11.1", "Remember jti; demand a nonce.", BIND},
    {"RP-3", SEVERITY_HIGH, RUN_ISSUER, NULL, NULL, "Is a DPoP proof held to its request?", "RFC 9449 4.3", "Compare htm and htu.", BIND},
    {"RP-4", SEVERITY_HIGH, RUN_ISSUER, NULL, NULL, "Is a DPoP token taken as a plain one?", "RFC 9449 7.2", "Refuse cnf.jkt without a proof.", BIND},
    {"RP-5", SEVERITY_MEDIUM, RUN_ISSUER, NULL, NULL, "Is a DPoP proof held to its token?", "RFC 9449 4.3", "Compare ath and the key.", BIND},
    {"RP-6", SEVERITY_HIGH, RUN_ISSUER, send_certificate_bound, judge_tokens, "Is a certificate-bound token refused without it?", "RFC 8705 3", "Refuse cnf.x5t#S256 on connections without that certificate.", BIND},
    {"RP-7", SEVERITY_HIGH, RUN_ISSUER, NULL, NULL, "Are workload proofs checked?", "draft-ietf-wimse-wpt", "Demand and check the proof.", BIND},
    {"RP-8", SEVERITY_MEDIUM, RUN_WRITES, send_upload_twice, judge_upload_twice, "Is an upload taken twice?", "RFC 9110 9.2.2", "Answer 409 to the second.", "allow: GET and HEAD alone."},
    {"RP-9", SEVERITY_MEDIUM, 0, send_from_places, judge_from_places, "Is a credential worth more from the gateway?", "NIST SP 800-207", "Grant nothing by address.", "Inject a credential; give the gateway's address no rights."},
};

const struct check_group check_binding = {"RP", "replay and binding", checks, COUNT(checks)};
