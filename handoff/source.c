/* Owns nothing that lasts: a source is words, what it holds is read when it is asked for. Runs no program itself. */
#include "handoff/source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define SANDBOX "{sandbox}"

static bool is_variable(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!(name.ptr[i] == '_' || (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z') ||
              (name.ptr[i] >= 'a' && name.ptr[i] <= 'z') || (i > 0 && name.ptr[i] >= '0' && name.ptr[i] <= '9')))
            return false;
    return name.len > 0;
}

static bool check_command(const char *words, struct fault *why)
{
    struct slice rest = slice_of(words), word, program = {"", 0};
    size_t n = 0;

    while (slice_next(&rest, ' ', &word)) {
        if (n++ == 0)
            program = word;
        if (word.len == 0)
            return fault_set(why, FAULT_SYNTAX, "words are parted by one space each; no shell reads them");
    }
    if (n > SOURCE_WORDS_MAX)
        return fault_set(why, FAULT_SYNTAX, "at most %d words", SOURCE_WORDS_MAX);
    if (!slice_starts(program, SLICE("/")) || slice_search(program, SLICE(SANDBOX)) >= 0)
        return fault_set(why, FAULT_SYNTAX, "expected a program's absolute path behind exec:, found \"%.*s\"",
                         SLICE_ARG(slice_cut(program, 0, 60)));
    return true;
}

bool source_parse(const char *text, struct source *out, struct fault *why)
{
    static const struct {
        const char *scheme;
        enum source_kind kind;
    } kinds[] = {{"file:", SOURCE_FILE}, {"env:", SOURCE_ENV}, {"exec:", SOURCE_EXEC}};

    *out = (struct source){0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(text, kinds[i].scheme, strlen(kinds[i].scheme)) == 0)
            *out = (struct source){kinds[i].kind, text + strlen(kinds[i].scheme)};
    if (out->kind == SOURCE_NONE)
        return fault_set(why, FAULT_SYNTAX, "expected \"file:NAME\", \"env:NAME\" or \"exec:PROGRAM WORD ...\"; a secret "
                         "itself does not stand in a configuration");
    if (out->kind == SOURCE_ENV && !is_variable(slice_of(out->rest)))
        return fault_set(why, FAULT_SYNTAX, "expected the name of a variable behind env:");
    return out->kind != SOURCE_EXEC || check_command(out->rest, why);
}

bool source_is_per_sandbox(const struct source *s)
{
    return s->rest && strstr(s->rest, SANDBOX);
}

bool source_takes(struct slice sandbox)
{
    for (size_t i = 0; i < sandbox.len; i++)
        if (!sandbox.ptr[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:", sandbox.ptr[i]))
            return false;
    return sandbox.len > 0 && sandbox.len <= 128 && !strchr(".-:", sandbox.ptr[0]);
}

/* text with the sandbox in its places (give). */
static char *fill(struct slice text, const char *sandbox)
{
    struct buf out = {0};
    ptrdiff_t at;

    while ((at = slice_search(text, SLICE(SANDBOX))) >= 0) {
        assert(source_takes(slice_of(sandbox)));
        buf_append(&out, slice_cut(text, 0, (size_t)at));
        buf_text(&out, sandbox);
        text = slice_from(text, (size_t)at + strlen(SANDBOX));
    }
    buf_append(&out, text);
    return buf_take_text(&out);
}

/* ---- reading ---- */

static struct secret *read_variable(const char *name, struct fault *why)
{
    const char *value = getenv(name);

    if (value && strlen(value) <= CREDENTIAL_MAX)
        return secret_new(slice_of(value));
    if (value)
        fault_set(why, FAULT_LIMIT, "the variable %.60s is longer than %d characters", name, CREDENTIAL_MAX);
    else
        fault_set(why, FAULT_MISSING, "the variable %.60s is not in the environment here", name);
    return NULL;
}

struct secret *source_read(const struct source *s, const char *sandbox, struct fault *why)
{
    struct secret *out;
    char *path;

    assert(s->kind == SOURCE_FILE || s->kind == SOURCE_ENV);
    if (s->kind == SOURCE_ENV)
        return read_variable(s->rest, why);
    path = fill(slice_of(s->rest), sandbox);
    out = secret_read_file(path, CREDENTIAL_MAX, why);
    free(path);
    return out;
}

char **source_words(const struct source *s, const char *sandbox)
{
    char **words = calloc(SOURCE_WORDS_MAX + 1, sizeof *words);
    struct slice rest = slice_of(s->rest), word;
    size_t n = 0;

    if (!words)
        abort();
    assert(s->kind == SOURCE_EXEC);
    while (n < SOURCE_WORDS_MAX && slice_next(&rest, ' ', &word))
        words[n++] = fill(word, sandbox);
    return words;
}

void source_words_free(char **words)
{
    for (char **w = words; w && *w; w++)
        free(*w);
    free(words);
}

/* ---- checking ---- */

static bool check_program(const struct source *s, struct fault *why)
{
    struct slice rest = slice_of(s->rest), word;
    struct stat st;
    char *path;
    bool ok = true;

    slice_next(&rest, ' ', &word);
    path = text_copy(word);
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
        ok = fault_set(why, FAULT_MISSING, "%s: no program that can be run", path);
    else if (st.st_mode & 022)
        ok = fault_set(why, FAULT_PERMISSION, "%s: others can write it (mode %04o); run: chmod go-w %s", path,
                       (unsigned)(st.st_mode & 07777), path);
    free(path);
    return ok;
}

/* The directories in front of the first {sandbox}. */
static bool check_directory(const struct source *s, struct fault *why)
{
    struct slice front = slice_cut(slice_of(s->rest), 0, (size_t)slice_search(slice_of(s->rest), SLICE(SANDBOX)));
    char *path;
    bool ok;

    while (front.len > 1 && front.ptr[front.len - 1] != '/')
        front.len--;
    path = text_copy(front);
    ok = file_exists(path) ? file_check_guarded(path, why)
                           : fault_set(why, FAULT_MISSING, "%s: no such directory", path);
    free(path);
    return ok;
}

bool source_check(const struct source *s, struct fault *why)
{
    struct secret *value;

    if (s->kind == SOURCE_EXEC)
        return check_program(s, why);
    if (source_is_per_sandbox(s))
        return check_directory(s, why);
    value = source_read(s, "", why);
    secret_free(value);
    return value != NULL;
}
