#include "proxy/outgoing.h"

static void put_address(struct record_writer *w, enum record_field f, const struct addr *a)
{
    struct buf text = {0};

    addr_text(&text, a);
    record_text(w, f, buf_slice(&text));
    buf_free(&text);
}

static void put_tcp(struct record_writer *w, const struct meter *count)
{
    record_number(w, FIELD_TCP_SENT, (int64_t)count->sent);
    record_number(w, FIELD_TCP_RECEIVED, (int64_t)count->received);
    if (count->resent)
        record_number(w, FIELD_TCP_RESENT, (int64_t)count->resent);
    if (count->unsent)
        record_number(w, FIELD_TCP_UNSENT, (int64_t)count->unsent);
}

void outgoing_record(struct recorder *r, const struct outgoing *o, const struct meter *count)
{
    struct record_writer w = recorder_begin(r, RECORD_UPSTREAM);

    record_text_if(&w, FIELD_SERVICE, o->service);
    record_text_if(&w, FIELD_ISSUER, o->issuer);
    record_text_if(&w, FIELD_ADDRESS, o->address);
    put_address(&w, FIELD_LOCAL, &count->local);
    record_number(&w, FIELD_EXCHANGES, o->exchanges);
    put_tcp(&w, count);
    recorder_end(r, &w, NULL);
}

void outgoing_record_line(struct recorder *r, const struct resolver_line *line)
{
    struct record_writer w = recorder_begin(r, RECORD_UPSTREAM);

    put_address(&w, FIELD_ADDRESS, &line->server);
    put_address(&w, FIELD_LOCAL, &line->count.local);
    record_text_if(&w, FIELD_DNS_TRANSPORT, line->is_tcp ? "tcp" : "udp");
    record_number(&w, FIELD_DNS_QUESTIONS, (int64_t)line->n_questions);
    if (line->is_tcp) {
        put_tcp(&w, &line->count);
    } else {
        record_number(&w, FIELD_UDP_SENT, (int64_t)line->count.sent);
        record_number(&w, FIELD_UDP_RECEIVED, (int64_t)line->count.received);
    }
    recorder_end(r, &w, NULL);
}
