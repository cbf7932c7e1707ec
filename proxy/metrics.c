#include "proxy/metrics.h"

#include <string.h>

static uint64_t load(const uint64_t *n)
{
    return __atomic_load_n(n, __ATOMIC_RELAXED);
}

uint64_t metrics_sum(const struct metrics *m, enum counter c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_pages; i++)
        sum += load(&m->pages[i].counters->values[c]);
    return sum;
}

int metrics_exhausted(const struct metrics *m)
{
    for (size_t i = 0; i < m->n_pages; i++)
        if (load(&m->pages[i].counters->values[COUNTER_EXHAUSTED]))
            return (int)load(&m->pages[i].counters->values[COUNTER_EXHAUSTED]);
    return 0;
}

bool metrics_has_keys(const struct metrics *m)
{
    for (size_t i = 0; i < m->n_issuers; i++)
        if (m->issuers[i].good)
            return true;
    return m->n_file_issuers > 0 || m->n_issuers == 0;
}

bool metrics_journal_is_open(const struct metrics *m)
{
    for (size_t i = 0; i < m->n_pages; i++)
        if (!load(&m->pages[i].counters->values[COUNTER_JOURNAL_OPEN]))
            return false;
    return m->n_pages > 0;
}

/* Backslash, quote and newline are escaped (exposition format 0.0.4). */
static void label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            buf_char(out, '\\');
        if (*value == '\n')
            buf_text(out, "\\n");
        else
            buf_char(out, *value);
    }
    buf_char(out, '"');
}

static void head(struct buf *out, const char *name, const char *help, const char *type)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void sample(struct buf *out, const char *name, const char *label_name, const char *label_value, uint64_t n)
{
    buf_text(out, name);
    if (*label_name) {
        buf_char(out, '{');
        label(out, label_name, label_value);
        buf_char(out, '}');
    }
    buf_char(out, ' ');
    buf_decimal(out, n);
    buf_char(out, '\n');
}

static const char *type_of(const char *name)
{
    return slice_ends(slice_of(name), SLICE("_total")) ? "counter" : "gauge";
}

static void write_counters(struct buf *out, const struct metrics *m)
{
    for (int c = 0; c < N_COUNTERS; c++) {
        const char *name = counter_name((enum counter)c);

        head(out, name, counter_help((enum counter)c), type_of(name));
        for (size_t i = 0; i < m->n_pages; i++)
            sample(out, name, "role", m->pages[i].role, load(&m->pages[i].counters->values[c]));
    }
}

/* Every reason from the start, so that a rate over one that comes up for the first time is not lost. */
static void write_decisions(struct buf *out, const struct metrics *m)
{
    head(out, "exeat_decisions_total", "Requests decided, by reason code.", "counter");
    for (int r = REASON_ALLOWED; r < N_REASONS; r++) {
        uint64_t sum = 0;

        for (size_t i = 0; i < m->n_pages; i++)
            sum += load(&m->pages[i].counters->decisions[r]);
        sample(out, "exeat_decisions_total", "reason", reason_code((enum reason)r), sum);
    }
}

static void write_facts(struct buf *out, const struct metrics *m)
{
    head(out, "exeat_build_info", "The version that runs.", "gauge");
    sample(out, "exeat_build_info", "version", m->version, 1);
    head(out, "exeat_policy_generation", "Generation of the policy in force.", "gauge");
    sample(out, "exeat_policy_generation", "", "", m->generation);
}

enum fact { FACT_OPEN, FACT_WAIVED, FACT_AGE };

/* False: there is nothing to say of this one. */
static bool fact_of(const struct metrics *m, const struct service *s, enum fact fact, uint64_t *n)
{
    int64_t at_s = service_attested(s)->at_s;

    switch (fact) {
    case FACT_OPEN:
        *n = service_is_open(s, m->now_s);
        return true;
    case FACT_WAIVED:
        *n = 1;
        return service_is_waived(s);
    default:
        *n = at_s < m->now_s ? (uint64_t)(m->now_s - at_s) : 0;
        return at_s > 0;
    }
}

static void write_audits(struct buf *out, const struct metrics *m)
{
    static const char *const facts[][2] = {
        [FACT_OPEN] = {"exeat_service_open", "Is the service open: by its last audit, or because that is waived, and not closed by hand?"},
        [FACT_WAIVED] = {"exeat_service_audit_waived", "Services that are open although nobody audited them."},
        [FACT_AGE] = {"exeat_service_audit_age_seconds", "Since the last audit of the service ended, passed or not."},
    };
    uint64_t n;

    for (int f = FACT_OPEN; f <= FACT_AGE; f++) {
        head(out, facts[f][0], facts[f][1], "gauge");
        for (size_t i = 0; m->policy && i < policy_count(m->policy); i++)
            if (fact_of(m, policy_service(m->policy, i), (enum fact)f, &n))
                sample(out, facts[f][0], "service", service_name(policy_service(m->policy, i)), n);
    }
}

static void write_issuers(struct buf *out, const struct metrics *m)
{
    head(out, "exeat_issuer_keys", "Keys in force of an issuer that publishes them; 0: its tokens are refused.", "gauge");
    for (size_t i = 0; i < m->n_issuers; i++)
        sample(out, "exeat_issuer_keys", "issuer", m->issuers[i].name, m->issuers[i].good ? m->issuers[i].keys : 0);
    head(out, "exeat_issuer_keys_fetched_seconds", "When they were fetched last, in seconds since 1970.", "gauge");
    for (size_t i = 0; i < m->n_issuers; i++)
        sample(out, "exeat_issuer_keys_fetched_seconds", "issuer", m->issuers[i].name, (uint64_t)m->issuers[i].fetched_s);
}

void metrics_write(struct buf *out, const struct metrics *m)
{
    write_facts(out, m);
    write_audits(out, m);
    write_issuers(out, m);
    write_counters(out, m);
    write_decisions(out, m);
}
