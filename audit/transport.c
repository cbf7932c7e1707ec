/* Owns the use of libcurl. Must not know what is asked for, or what an answer means. */
#include "audit/transport.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdlib.h>

#include "audit/curl.h"
#include "audit/ferry.h"
#include "audit/wording.h"
#include "base/clock.h"
#include "base/text.h"

enum { TUNNEL_WAIT_MS = 400 };

struct transport {
    struct way way; /* base: of the probe that is sent */
    CURL *curl;
    char *agent;
    int64_t timeout_ms;
    const char *gateway_ca;      /* may be NULL */
    struct ferry *ferry;         /* NULL: by its address */
    struct buf refusal;          /* the last head that came, of a tunnel too */
    struct turn *x;
    char error[CURL_ERROR_SIZE]; /* what libcurl says of the probe that is sent */
    EVP_MD_CTX *sent, *received;
};

struct transport *transport_new(const struct target *t, const char *agent, struct fault *why)
{
    struct transport *s = calloc(1, sizeof *s);

    if (!s || !(s->sent = EVP_MD_CTX_new()) || !(s->received = EVP_MD_CTX_new()))
        abort();
    s->way.target = t;
    s->agent = text_copy(slice_of(agent));
    s->timeout_ms = conf_number(manifest_section(t->manifest, "reach"), "timeout");
    if (s->timeout_ms < 100)
        s->timeout_ms = 100;
    if (curl_begin(why) && (s->curl = curl_easy_init()))
        return s;
    transport_free(s);
    return NULL;
}

void transport_through(struct transport *s, const struct addr *gateway, const char *token, const char *ca, bool is_bare)
{
    s->way.gateway = gateway;
    s->way.is_bare = is_bare;
    s->way.leave_token = token;
    s->gateway_ca = ca;
    s->ferry = NULL;
}

void transport_ferried(struct transport *s, struct ferry *f, const char *token, const char *ca, bool is_bare)
{
    transport_through(s, ferry_at(f), token, ca, is_bare);
    s->ferry = f;
}

void transport_free(struct transport *s)
{
    if (!s)
        return;
    curl_easy_cleanup(s->curl);
    EVP_MD_CTX_free(s->sent);
    EVP_MD_CTX_free(s->received);
    buf_free(&s->refusal);
    free(s->agent);
    free(s);
}

/* ---- what libcurl calls ---- */

static size_t on_head(char *line, size_t size, size_t n, void *arg)
{
    struct turn *x = ((struct transport *)arg)->x;
    struct slice s = slice_make(line, size * n);

    if (slice_starts(s, SLICE("HTTP/"))) /* the final answer, behind one that said 1xx */
        buf_clear(&x->head);
    if (buf_len(&x->head) + s.len > TURN_HEAD_MAX)
        return 0;
    buf_append(&x->head, s);
    return s.len;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct turn *x = ((struct transport *)arg)->x;
    size_t room = TURN_BODY_MAX - buf_len(&x->body);

    if (size * n > room) {
        buf_append(&x->body, slice_make(bytes, room));
        x->is_cut = true;
        return 0;
    }
    buf_append(&x->body, slice_make(bytes, size * n));
    return size * n;
}

static int on_trace(CURL *curl, curl_infotype type, char *bytes, size_t n, void *arg)
{
    struct transport *s = arg;

    (void)curl;
    if (type == CURLINFO_HEADER_IN && buf_len(&s->refusal) + n <= TURN_HEAD_MAX) {
        if (slice_starts(slice_make(bytes, n), SLICE("HTTP/")))
            buf_clear(&s->refusal);
        buf_append(&s->refusal, slice_make(bytes, n));
    }
    if (type == CURLINFO_HEADER_OUT || type == CURLINFO_DATA_OUT)
        EVP_DigestUpdate(s->sent, bytes, n);
    else if (type == CURLINFO_HEADER_IN || type == CURLINFO_DATA_IN)
        EVP_DigestUpdate(s->received, bytes, n);
    return 0;
}

/* The last look before a packet: the very address, not the name that led to it. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    const struct transport *s = arg;
    struct addr a;

    if (s->ferry)
        return ferry_socket(s->ferry);
    addr_from_sockaddr(&a, &to->addr);
    if (purpose != CURLSOCKTYPE_IPCXN || !addr_equals(&a, s->way.gateway ? s->way.gateway : &s->way.base->at) || !manifest_reaches(s->way.target->manifest, &a))
        return CURL_SOCKET_BAD;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* ---- the handle ---- */

/* A list of these texts, each ended by a NUL (give: wipe); lines is empty and wiped then. */
static struct curl_slist *list_of(struct buf *lines)
{
    struct curl_slist *list = NULL, *longer;
    struct slice left = buf_slice(lines), line;

    while (slice_next(&left, '\0', &line) && line.len) {
        if (!(longer = curl_slist_append(list, line.ptr)))
            abort();
        list = longer;
    }
    buf_wipe(lines);
    return list;
}

static void wipe(struct curl_slist *list)
{
    for (struct curl_slist *l = list; l; l = l->next)
        explicit_bzero(l->data, strlen(l->data));
    curl_slist_free_all(list);
}

static struct curl_slist *pin(const struct transport *s)
{
    struct buf line = {0};

    buf_printf(&line, "%s:%u:", s->way.base->host, s->way.base->at.port);
    addr_ip_text(&line, &s->way.base->at);
    buf_char(&line, '\0');
    return list_of(&line);
}

/* Through a tunnel, which libcurl makes; fields (give) are for the gateway alone. */
static struct curl_slist *tunnel(struct transport *s)
{
    struct curl_slist *fields;
    struct buf line = {0};
    char *text;

    if (!s->way.gateway || !s->way.base->tls)
        return NULL;
    buf_text(&line, "http://");
    addr_text(&line, s->way.gateway);
    text = buf_take_text(&line);
    curl_easy_setopt(s->curl, CURLOPT_PROXY, text);
    free(text);
    curl_easy_setopt(s->curl, CURLOPT_NOPROXY, "");
    curl_easy_setopt(s->curl, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(s->curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (s->way.leave_token)
        buf_printf(&line, "Proxy-Authorization: Bearer %s", s->way.leave_token);
    else
        buf_text(&line, "Proxy-Connection:"); /* a list it must be: libcurl's own field is left out */
    buf_char(&line, '\0');
    fields = list_of(&line);
    curl_easy_setopt(s->curl, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    curl_easy_setopt(s->curl, CURLOPT_PROXYHEADER, fields);
    if (s->gateway_ca)
        curl_easy_setopt(s->curl, CURLOPT_CAINFO, s->gateway_ca);
    return fields;
}

static void prepare(struct transport *s, const struct probe *p, const struct curl_slist *pinned)
{
    CURL *c = s->curl;
    struct buf url = {0};
    const char *ca = target_text(s->way.target, "ca-file");
    char *text;

    curl_easy_reset(c);
    s->error[0] = 0;
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->error);
    buf_text(&url, s->way.base->tls ? "https://" : "http://");
    if (wording_is_whole(&s->way))
        addr_text(&url, s->way.gateway);
    else
        wording_authority(&s->way, &url);
    buf_char(&url, '/');
    text = buf_take_text(&url);
    curl_easy_setopt(c, CURLOPT_URL, text);
    free(text);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_RESOLVE, pinned);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)s->timeout_ms);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, s);
    if (ca)
        curl_easy_setopt(c, CURLOPT_CAINFO, ca);
    if (p->source)
        curl_easy_setopt(c, CURLOPT_INTERFACE, p->source);
}

/* Who refuses without waiting for the content resets the connection behind the answer: RFC 9112 9.6. */
static bool is_early_refusal(const struct probe *p, CURLcode code, long status)
{
    return p->body.len && (code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR) && status / 100 == 4;
}

static enum outcome outcome_of(CURLcode code, const struct turn *x)
{
    switch (code) {
    case CURLE_OK:
        return OUTCOME_ANSWERED;
    case CURLE_OPERATION_TIMEDOUT:
        return OUTCOME_TIMEOUT;
    case CURLE_COULDNT_CONNECT:
        return OUTCOME_REFUSED;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return OUTCOME_TLS;
    case CURLE_WRITE_ERROR:
        return x->is_cut ? OUTCOME_ANSWERED : OUTCOME_NOISE;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return OUTCOME_NOISE;
    default: /* one that began and broke off is no answer, and no refusal either */
        return buf_len(&x->head) ? OUTCOME_NOISE : OUTCOME_CLOSED;
    }
}

/* What libcurl is to ask, and who hears of the answer. */
static void put_request(struct transport *s, const struct probe *p, const struct curl_slist *fields, const char *target)
{
    struct slice method = slice_of(s->x->method);
    CURL *c = s->curl;

    curl_easy_setopt(c, CURLOPT_REQUEST_TARGET, target);
    curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, s->agent);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(c, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(c, CURLOPT_DEBUGFUNCTION, on_trace);
    curl_easy_setopt(c, CURLOPT_DEBUGDATA, s);
    if (p->body.len || slice_is(method, "POST") || slice_is(method, "PUT")) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)p->body.len);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body.ptr ? p->body.ptr : "");
    }
    if (slice_is(method, "HEAD"))
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, s->x->method);
}

/* The gateway's answer to the CONNECT, when it refused the tunnel, stands for that of the service. */
static void take_refusal(struct transport *s, long *status)
{
    if (*status || curl_easy_getinfo(s->curl, CURLINFO_HTTP_CONNECTCODE, status) != CURLE_OK || *status == 0 || *status / 100 == 2)
        return;
    s->x->outcome = OUTCOME_ANSWERED;
    buf_clear(&s->x->head);
    buf_append(&s->x->head, buf_slice(&s->refusal));
}

static void send_plain(struct transport *s, const struct probe *p)
{
    struct curl_slist *fields, *pinned = pin(s), *gateways;
    struct buf target = {0}, lines = {0};
    long status = 0;
    CURLcode code;
    char *text;

    wording_fields(&s->way, p, &lines);
    fields = list_of(&lines);
    wording_target(&s->way, p, &target);
    text = buf_take_text(&target);
    buf_clear(&s->refusal);
    prepare(s, p, pinned);
    gateways = tunnel(s);
    put_request(s, p, fields, text);
    code = curl_easy_perform(s->curl);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    s->x->outcome = is_early_refusal(p, code, status) ? OUTCOME_ANSWERED : outcome_of(code, s->x);
    if (gateways && s->x->outcome != OUTCOME_ANSWERED)
        take_refusal(s, &status);
    s->x->status = (int)status;
    wipe(gateways);
    explicit_bzero(text, strlen(text));
    free(text);
    wipe(fields);
    curl_slist_free_all(pinned);
}

/* ---- by hand: CONNECT, whose answer has no end ---- */

static bool wait_for(curl_socket_t fd, short events, int64_t until_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    int64_t left = until_ms - clock_mono_ms();

    return left > 0 && poll(&poll_fd, 1, (int)left) == 1;
}

static bool write_all(struct transport *s, curl_socket_t fd, struct slice bytes, int64_t until_ms)
{
    EVP_DigestUpdate(s->sent, bytes.ptr, bytes.len);
    while (bytes.len) {
        size_t n = 0;
        CURLcode code = curl_easy_send(s->curl, bytes.ptr, bytes.len, &n);

        if (code == CURLE_AGAIN && wait_for(fd, POLLOUT, until_ms))
            continue;
        if (code != CURLE_OK)
            return false;
        bytes = slice_from(bytes, n);
    }
    return true;
}

/* Bytes come into in; CURLE_OK: some did; CURLE_GOT_NOTHING: the end; CURLE_OPERATION_TIMEDOUT. */
static CURLcode read_some(struct transport *s, curl_socket_t fd, struct buf *in, int64_t until_ms)
{
    for (;;) {
        size_t n = 0;
        CURLcode code = curl_easy_recv(s->curl, buf_reserve(in, 4096), 4096, &n);

        if (code == CURLE_OK && n == 0)
            return CURLE_GOT_NOTHING;
        if (code == CURLE_OK) {
            EVP_DigestUpdate(s->received, in->ptr + in->end, n);
            buf_commit(in, n);
            return CURLE_OK;
        }
        if (code != CURLE_AGAIN)
            return CURLE_GOT_NOTHING;
        if (!wait_for(fd, POLLIN, until_ms))
            return CURLE_OPERATION_TIMEDOUT;
    }
}

static bool read_status(struct turn *x)
{
    struct slice head = buf_slice(&x->head);
    uint64_t status;

    if (!slice_starts(head, SLICE("HTTP/1.")) || !slice_decimal(slice_cut(head, 9, 12), 999, &status))
        return false;
    x->status = (int)status;
    return true;
}

static enum outcome converse(struct transport *s, const struct probe *p, curl_socket_t fd)
{
    struct turn *x = s->x;
    int64_t until_ms = clock_mono_ms() + s->timeout_ms;
    struct buf head = {0};
    CURLcode code = CURLE_OK;
    bool sent;

    wording_head(&s->way, p, x->method, s->agent, &head);
    buf_append(&head, p->body);
    sent = write_all(s, fd, buf_slice(&head), until_ms);
    buf_wipe(&head);
    while (sent && code == CURLE_OK && slice_search(buf_slice(&x->head), SLICE("\r\n\r\n")) < 0 && buf_len(&x->head) < TURN_HEAD_MAX)
        code = read_some(s, fd, &x->head, until_ms);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return OUTCOME_TIMEOUT;
    if (buf_len(&x->head) == 0)
        return OUTCOME_CLOSED;
    if (slice_search(buf_slice(&x->head), SLICE("\r\n\r\n")) < 0 || !read_status(x))
        return OUTCOME_NOISE;
    while (p->reads_on && code == CURLE_OK && buf_len(&x->body) < TURN_HEAD_MAX)
        code = read_some(s, fd, &x->body, clock_mono_ms() + TUNNEL_WAIT_MS);
    if (x->status / 100 == 2 && p->inside.len && write_all(s, fd, p->inside, until_ms))
        read_some(s, fd, &x->body, clock_mono_ms() + TUNNEL_WAIT_MS);
    return OUTCOME_ANSWERED;
}

static void send_by_hand(struct transport *s, const struct probe *p)
{
    struct curl_slist *pinned = pin(s), *gateways;
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;

    prepare(s, p, pinned);
    gateways = tunnel(s);
    curl_easy_setopt(s->curl, CURLOPT_CONNECT_ONLY, 1L);
    code = curl_easy_perform(s->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(s->curl, CURLINFO_ACTIVESOCKET, &fd);
    s->x->outcome = code == CURLE_OK ? converse(s, p, fd) : outcome_of(code, s->x);
    curl_slist_free_all(pinned);
    wipe(gateways);
    /* The connection belongs to the handle: a new one closes it. */
    curl_easy_cleanup(s->curl);
    if (!(s->curl = curl_easy_init()))
        abort();
}

/* Names of certificates stand in it: what a terminal would obey is left out. */
static void note_why(struct transport *s)
{
    for (char *c = s->error; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    if (s->x->outcome == OUTCOME_TLS)
        turn_note(s->x, "%.160s", s->error[0] ? s->error : "no certificate that can be verified");
}

struct turn *transport_send(struct transport *s, const struct probe *p)
{
    int64_t begun_ms = clock_mono_ms();
    struct turn *x = turn_new(p);

    assert(p->base < s->way.target->n_base);
    s->x = x;
    s->way.base = &s->way.target->base[p->base];
    if (!target_sends(s->way.target, x->method)) {
        x->outcome = OUTCOME_METHOD;
        return x;
    }
    EVP_DigestInit_ex(s->sent, EVP_sha256(), NULL);
    EVP_DigestInit_ex(s->received, EVP_sha256(), NULL);
    if (p->is_by_hand || slice_is(slice_of(x->method), "CONNECT"))
        send_by_hand(s, p);
    else
        send_plain(s, p);
    note_why(s);
    EVP_DigestFinal_ex(s->sent, x->request_hash, NULL);
    EVP_DigestFinal_ex(s->received, x->response_hash, NULL);
    x->took_ms = clock_mono_ms() - begun_ms;
    return x;
}
