#include "cmd/attest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/report.h"
#include "base/file.h"
#include "cmd/receipt.h"
#include "handoff/attestation.h"
#include "proxy/config.h"

struct attest {
    struct gateway_config *config;
    struct signer *key;
};

static struct signer *open_key(const char *state, struct fault *why)
{
    char *path = file_join(state, ATTESTATION_KEY ".key");
    struct signer *key = NULL;

    if (file_exists(path) || signer_create(state, ATTESTATION_KEY, why))
        key = signer_load(path, why);
    free(path);
    return key;
}

struct attest *attest_open(const char *config, struct fault *why)
{
    struct attest *a = calloc(1, sizeof *a);

    if (!a)
        abort();
    if ((a->config = gateway_config_load(config, why)) && (a->key = open_key(a->config->state, why)))
        return a;
    attest_free(a);
    return NULL;
}

void attest_free(struct attest *a)
{
    if (!a)
        return;
    signer_free(a->key);
    gateway_config_free(a->config);
    free(a);
}

const struct service *attest_service(const struct attest *a, const char *name, struct fault *why)
{
    for (size_t i = 0; i < policy_count(a->config->policy); i++) {
        const struct service *s = policy_service(a->config->policy, i);

        if (strcmp(service_name(s), name) == 0)
            return s;
    }
    fault_set(why, FAULT_USAGE, "the gateway's configuration has no service \"%.60s\": the manifest must name it as that does", name);
    return NULL;
}

/* Those that kept it from passing; NULL-ended (give the list alone). */
static const char **failing_of(const struct audit *found)
{
    const char **list = calloc(audit_count(found) + 1, sizeof *list);
    size_t n = 0;

    if (!list)
        abort();
    for (size_t i = 0; i < audit_count(found); i++)
        if (audit_keeps_from_passing(audit_result(found, i)))
            list[n++] = audit_result(found, i)->check->id;
    return list;
}

/* Beside the attestation: what the record of it stands for. */
static bool keep_exchanges(const struct attest *a, const struct service *s, struct slice lines, struct fault *why)
{
    char *directory = file_join(a->config->state, ATTESTATION_DIRECTORY), name[128], *path;
    bool ok;

    snprintf(name, sizeof name, "%.100s.exchanges", service_name(s));
    path = file_join(directory, name);
    ok = file_replace(path, 0644, lines, why);
    free(path);
    free(directory);
    return ok;
}

static bool sign(const struct attest *a, const struct service *s, const struct audit *found, const struct receipt *receipt, struct fault *why)
{
    const char **failing = failing_of(found);
    struct buf token = {0}, summary = {0};
    char *text;
    bool ok;

    report_attested(found, receipt, &summary);
    text = buf_take_text(&summary);
    ok = attestation_sign(a->key,
                          &(struct attestation){.attester = a->config->name, .service = service_name(s), .digest = service_digest(s),
                                                .at_s = audit_began_s(found), .until_s = audit_accepted_until_s(found),
                                                .is_passing = audit_is_passing(found), .failing = failing, .summary = text},
                          &token, why) &&
         attestation_write(a->config->state, service_name(s), buf_slice(&token), why);
    buf_free(&token);
    free(text);
    free(failing);
    return ok;
}

bool attest_write(const struct attest *a, const struct service *s, const struct audit *found, struct fault *why)
{
    struct buf lines = {0};
    struct receipt receipt;
    bool ok;

    report_exchanges(found, &lines);
    ok = receipt_make(buf_slice(&lines), &receipt, why) && sign(a, s, found, &receipt, why) && keep_exchanges(a, s, buf_slice(&lines), why);
    receipt_clear(&receipt);
    buf_free(&lines);
    return ok;
}

char *attest_record(const struct attest *a, const struct service *s, const struct audit *found, struct fault *why)
{
    const char **failing = failing_of(found);
    struct buf lines = {0}, detail = {0};
    struct receipt receipt;
    char *text, *id = NULL;

    for (size_t i = 0; failing[i]; i++)
        buf_printf(&detail, "%s%s", i ? ", " : "", failing[i]);
    text = buf_take_text(&detail);
    report_exchanges(found, &lines);
    if (receipt_make(buf_slice(&lines), &receipt, why))
        id = receipt_hand(a->config->admin, &receipt,
                          &(struct receipt_record){.service = service_name(s), .outcome = audit_is_passing(found) ? "passed" : "did not pass", .detail = text}, why);
    receipt_clear(&receipt);
    buf_free(&lines);
    free(text);
    free(failing);
    return id;
}
