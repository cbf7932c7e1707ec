/*
 * What the programs of the benchmark share: sockets on the loopback, plain or TLS 1.3 (P-256, AES-128-GCM),
 * never blocking. Failures to set up end the program with a line on stderr.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct wire {
    int fd;
    SSL *ssl; /* NULL: plain */
};

enum { WIRE_AGAIN = 0, WIRE_END = -1, WIRE_FAIL = -2 };

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

SSL_CTX *wire_server_context(const char *cert, const char *key);
/* Verifies against the certificates in ca, and names. No session is ever offered again. */
SSL_CTX *wire_client_context(const char *ca);

/* "127.0.0.1:8443", both of them numbers. */
int wire_listen(const char *address);
int wire_connect(const char *address);
/* The next connection, or -1. */
int wire_accept(int listener);

/* From here on it is TLS; name is what the peer's certificate must be for. The handshake runs in read and write. */
void wire_start_client(struct wire *w, SSL_CTX *context, const char *name);
void wire_start_server(struct wire *w, SSL_CTX *context);
/* Bytes moved, or one of the three above. */
ssize_t wire_read(struct wire *w, void *into, size_t room);
ssize_t wire_write(struct wire *w, const void *from, size_t n);
void wire_close(struct wire *w);

/* Raise the limit of open files as far as it goes; die below need. */
void wire_need_files(unsigned need);
uint64_t wire_now_ns(void);

#endif
