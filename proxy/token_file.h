/*
 * A token file: where the operator keeps the token of a bound listener fresh (exeat token renew). The supervisor reads it and hands
 * it to the workers, which open no files. Replace it as a whole (rename), as token renew does.
 */
#ifndef PROXY_TOKEN_FILE_H
#define PROXY_TOKEN_FILE_H

#include "base/fault.h"
#include "base/secret.h"

struct token_file;

/* Nothing is read yet. */
struct token_file *token_file_new(const char *path);
void token_file_free(struct token_file *t);
/* Look whether the file is another one than at the last look, and read it then. True when the token is another. */
bool token_file_look(struct token_file *t);
/* What people have not been told of it: its trouble, "" when that is over; NULL: nothing. Once. */
const char *token_file_news(struct token_file *t);
/* Borrowed until the next look; empty: there is none, and token_file_trouble says why. */
struct slice token_file_token(const struct token_file *t);
const char *token_file_path(const struct token_file *t);
/* For people; "": a token was read. Whether it is good only a worker knows. */
const char *token_file_trouble(const struct token_file *t);

#endif
