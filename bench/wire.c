#include "bench/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(3);
}

static SSL_CTX *new_context(const SSL_METHOD *method)
{
    SSL_CTX *context = SSL_CTX_new(method);

    signal(SIGPIPE, SIG_IGN);
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") || !SSL_CTX_set1_groups_list(context, "P-256"))
        die("TLS: %s", ERR_error_string(ERR_get_error(), NULL));
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(context, 1);
    return context;
}

SSL_CTX *wire_server_context(const char *cert, const char *key)
{
    SSL_CTX *context = new_context(TLS_server_method());

    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        die("%s, %s: %s", cert, key, ERR_error_string(ERR_get_error(), NULL));
    SSL_CTX_set_num_tickets(context, 0);
    return context;
}

SSL_CTX *wire_client_context(const char *ca)
{
    SSL_CTX *context = new_context(TLS_client_method());

    if (SSL_CTX_load_verify_locations(context, ca, NULL) != 1)
        die("%s: %s", ca, ERR_error_string(ERR_get_error(), NULL));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return context;
}

static struct sockaddr_in parse_address(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    char host[INET_ADDRSTRLEN];
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

    if (!colon || (size_t)(colon - address) >= sizeof host || port == 0 || port > 65535)
        die("%s: expected an address such as 127.0.0.1:8443", address);
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        die("%s: expected an address such as 127.0.0.1:8443", address);
    in.sin_port = htons((uint16_t)port);
    return in;
}

static int new_socket(void)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int wire_listen(const char *address)
{
    struct sockaddr_in in = parse_address(address);
    int fd = new_socket();

    if (bind(fd, (struct sockaddr *)&in, sizeof in) < 0 || listen(fd, 4096) < 0)
        die("%s: %s", address, strerror(errno));
    return fd;
}

int wire_connect(const char *address)
{
    struct sockaddr_in in = parse_address(address);
    int fd = new_socket();

    if (connect(fd, (struct sockaddr *)&in, sizeof in) < 0 && errno != EINPROGRESS)
        die("connect to %s: %s", address, strerror(errno));
    return fd;
}

int wire_accept(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void start(struct wire *w, SSL_CTX *context)
{
    w->ssl = SSL_new(context);
    if (!w->ssl || !SSL_set_fd(w->ssl, w->fd))
        die("TLS: %s", ERR_error_string(ERR_get_error(), NULL));
}

void wire_start_client(struct wire *w, SSL_CTX *context, const char *name)
{
    start(w, context);
    if (!SSL_set_tlsext_host_name(w->ssl, name) || !SSL_set1_host(w->ssl, name))
        die("TLS: %s", ERR_error_string(ERR_get_error(), NULL));
    SSL_set_connect_state(w->ssl);
}

void wire_start_server(struct wire *w, SSL_CTX *context)
{
    start(w, context);
    SSL_set_accept_state(w->ssl);
}

static ssize_t tls_result(struct wire *w, int n)
{
    switch (SSL_get_error(w->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return WIRE_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return WIRE_END;
    default:
        return WIRE_FAIL;
    }
}

ssize_t wire_read(struct wire *w, void *into, size_t room)
{
    ssize_t got;

    if (w->ssl) {
        int n;

        ERR_clear_error();
        n = SSL_read(w->ssl, into, (int)room);
        return n > 0 ? n : tls_result(w, n);
    }
    got = recv(w->fd, into, room, 0);
    if (got > 0)
        return got;
    return got == 0 ? WIRE_END : errno == EAGAIN || errno == ENOTCONN ? WIRE_AGAIN : WIRE_FAIL;
}

ssize_t wire_write(struct wire *w, const void *from, size_t n)
{
    ssize_t put;

    if (w->ssl) {
        int done;

        ERR_clear_error();
        done = SSL_write(w->ssl, from, (int)n);
        return done > 0 ? done : tls_result(w, done);
    }
    put = send(w->fd, from, n, MSG_NOSIGNAL);
    if (put > 0)
        return put;
    return errno == EAGAIN || errno == ENOTCONN ? WIRE_AGAIN : WIRE_FAIL;
}

void wire_close(struct wire *w)
{
    if (w->ssl) {
        if (SSL_is_init_finished(w->ssl))
            SSL_shutdown(w->ssl);
        SSL_free(w->ssl);
    }
    if (w->fd >= 0)
        close(w->fd);
    *w = (struct wire){.fd = -1};
}

void wire_need_files(unsigned need)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < need)
        die("%u open files are needed, the limit is %lu: ulimit -Hn", need, (unsigned long)limit.rlim_cur);
}

uint64_t wire_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}
