/*
 * The leave token as a file that others keep fresh, and the head field that it makes. Read again when the file has changed; what
 * it held before stays in use while it cannot be read.
 */
#ifndef SANDBOX_PASS_H
#define SANDBOX_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

enum { PASS_TOKEN_MAX = 8192, PASS_FIELD_MAX = PASS_TOKEN_MAX + 40 };

struct pass {
    const char *path; /* kept */
    char field[PASS_FIELD_MAX]; /* "Proxy-Authorization: Bearer TOKEN\r\n" */
    size_t len;       /* of field; 0: there was no token yet */
    struct timespec changed;
    ino_t file;
    off_t size;
    char trouble[160]; /* of the last look at the file; "": none */
};

/* Look whether the file has changed, and read it if so. False: there is no token to use; trouble says why. */
bool pass_refresh(struct pass *p);
/* The token alone, borrowed; "" before there was one. */
const char *pass_token(const struct pass *p, size_t *len);

#endif
