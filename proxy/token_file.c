#include "proxy/token_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "authz/token.h"
#include "base/text.h"

struct token_file {
    char *path;
    struct secret *token; /* NULL: none */
    bool looked;
    struct stat seen; /* zeroed: no file */
    char trouble[FAULT_TEXT_SIZE], told[FAULT_TEXT_SIZE];
};

struct token_file *token_file_new(const char *path)
{
    struct token_file *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->path = text_copy(slice_of(path));
    return t;
}

void token_file_free(struct token_file *t)
{
    if (!t)
        return;
    secret_free(t->token);
    free(t->path);
    free(t);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static struct secret *read_it(struct token_file *t)
{
    struct fault why = {0};
    struct secret *token = secret_read_file(t->path, TOKEN_CREDENTIAL_MAX, &why);

    if (token && !secret_slice(token).len) {
        fault_set(&why, FAULT_SYNTAX, "%s: there is no token in it", t->path);
        secret_free(token);
        token = NULL;
    }
    memcpy(t->trouble, why.text, sizeof t->trouble);
    return token;
}

bool token_file_look(struct token_file *t)
{
    struct slice before = token_file_token(t);
    struct secret *token;
    struct stat now = {0};
    bool changed;

    if (stat(t->path, &now) < 0)
        now = (struct stat){0};
    if (t->looked && is_same(&now, &t->seen))
        return false;
    t->looked = true;
    t->seen = now;
    token = read_it(t);
    changed = !secret_equals(before, token ? secret_slice(token) : slice_make("", 0));
    secret_free(t->token);
    t->token = token;
    return changed;
}

const char *token_file_news(struct token_file *t)
{
    if (strcmp(t->told, t->trouble) == 0)
        return NULL;
    memcpy(t->told, t->trouble, sizeof t->told);
    return t->told;
}

struct slice token_file_token(const struct token_file *t)
{
    return t->token ? secret_slice(t->token) : slice_make("", 0);
}

const char *token_file_path(const struct token_file *t)
{
    return t->path;
}

const char *token_file_trouble(const struct token_file *t)
{
    return t->looked ? t->trouble : "not read yet";
}
