/*
 * exeat-credential: hands a client the leave token that is in a file now. To git as a credential helper (gitcredentials(7)), to apt
 * as the command that finds a proxy (apt.conf(5), Acquire::http::Proxy-Auto-Detect). For the gateway's address and no other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/helper.h"
#include "sandbox/pass.h"
#include "sandbox/words.h"

enum { STATUS_USAGE = 2, STATUS_FAILED = 3, LINE_MOST = 1024, LINES_MOST = 100 };

struct credential {
    struct pass pass;
    const char *gateway; /* HOST:PORT */
    const char *word;    /* get, store, erase, or a URL */
};

/* What git asks about. Longer values than these are no gateway's. */
struct question {
    char protocol[16], host[256], user[64];
};

static int misuse(const char *what, const char *detail)
{
    fprintf(stderr, "exeat-credential: %s%s; see: exeat-credential --help\n", what, detail);
    return STATUS_USAGE;
}

static bool take_token(struct credential *c)
{
    if (pass_refresh(&c->pass))
        return true;
    fprintf(stderr, "exeat-credential: %s\n", c->pass.trouble);
    return false;
}

static int print_token(const struct credential *c, const char *before, const char *after)
{
    size_t len;
    const char *token = pass_token(&c->pass, &len);

    printf("%s%.*s%s\n", before, (int)len, token, after);
    return fflush(stdout) == 0 ? 0 : STATUS_FAILED;
}

/* ---- git ---- */

static void keep(char *out, size_t size, const char *value)
{
    if (strlen(value) < size)
        memcpy(out, value, strlen(value) + 1);
    else
        out[0] = '\0';
}

/* Lines "key=value" up to an empty one or the end. False: this is not git's way of asking. */
static bool read_question(struct question *q)
{
    char line[LINE_MOST];

    for (int n = 0; fgets(line, sizeof line, stdin); n++) {
        size_t len = strcspn(line, "\n");
        char *equals = strchr(line, '=');

        if (len == 0)
            return true;
        if (line[len] != '\n' || !equals || n == LINES_MOST)
            return false;
        line[len] = *equals = '\0';
        if (strcmp(line, "protocol") == 0)
            keep(q->protocol, sizeof q->protocol, equals + 1);
        else if (strcmp(line, "host") == 0)
            keep(q->host, sizeof q->host, equals + 1);
        else if (strcmp(line, "username") == 0)
            keep(q->user, sizeof q->user, equals + 1);
    }
    return true;
}

/* Nothing for whoever is not the gateway: another helper, or the user, may have an answer there. */
static int answer_git(struct credential *c)
{
    struct question q = {"", "", ""};
    char before[128];

    if (!read_question(&q))
        return misuse("this is no question of git's", "");
    if (strcmp(q.protocol, "http") != 0 || strcmp(q.host, c->gateway) != 0)
        return 0;
    if (!take_token(c))
        return STATUS_FAILED;
    snprintf(before, sizeof before, "username=%s\npassword=", q.user[0] ? q.user : "jwt");
    return print_token(c, before, "");
}

/* ---- apt ---- */

static int answer_apt(struct credential *c)
{
    char after[280];

    if (!take_token(c))
        return STATUS_FAILED;
    snprintf(after, sizeof after, "@%s/", c->gateway);
    return print_token(c, "http://jwt:", after);
}

/* ---- the command line ---- */

static void print_option(const char *name, const char *value, const char *text)
{
    printf("  --%s%s%s\n        %s\n", name, value ? " " : "", value ? value : "", text);
}

static int print_help(void)
{
    puts("usage: exeat-credential " CREDENTIAL_USAGE "\n       " CREDENTIAL_SUMMARY "\n\n" CREDENTIAL_HELP "\noptions:");
#define OPTION(name, value, text) print_option(name, value, text);
    CREDENTIAL_OPTIONS(OPTION)
#undef OPTION
    puts("\nexamples:\n" CREDENTIAL_EXAMPLES);
    return 0;
}

/* HOST:PORT, with nothing in it that would mean more in a URL. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t len = strlen(text);

    return colon && colon > text && colon[1] && len < 256 &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]") == len &&
           strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

static int take_option(struct credential *c, int which, const char *value)
{
    switch (which) {
    case 'f':
        c->pass.path = value;
        return 0;
    case 'g':
        c->gateway = value;
        return 0;
    case 'h':
        print_help();
        return -1;
    case 'v':
        puts("exeat-credential " EXEAT_VERSION);
        return -1;
    case WORD_BARE:
        if (c->word)
            return misuse("one word too many: ", value);
        c->word = value;
        return 0;
    case WORD_NO_VALUE:
        return misuse("it wants a value: ", value);
    default:
        return misuse("no such option: ", value);
    }
}

static int read_options(struct credential *c, int argc, char **argv)
{
    static const struct word_spec options[] = {
        {"token-file", true, 'f'}, {"gateway", true, 'g'}, {"help", false, 'h'}, {"version", false, 'v'}, {0},
    };
    const char *value = "";
    int at = 1, which, status;

    while ((which = words_next(argc, argv, &at, options, &value)) != WORD_END)
        if ((status = take_option(c, which, value)) != 0)
            return status;
    if (!c->pass.path || !c->pass.path[0])
        return misuse("--token-file FILE or $EXEAT_TOKEN_FILE is needed", "");
    if (!c->gateway || !is_address(c->gateway))
        return misuse("--gateway HOST:PORT or $EXEAT_GATEWAY is needed", "");
    if (!c->word)
        return misuse("it wants get, store or erase, or the URL that apt asks about", "");
    return 0;
}

int main(int argc, char **argv)
{
    struct credential c = {.pass = {.path = getenv("EXEAT_TOKEN_FILE")}, .gateway = getenv("EXEAT_GATEWAY")};
    int status = read_options(&c, argc, argv);

    if (status)
        return status < 0 ? 0 : status;
    if (strcmp(c.word, "get") == 0)
        return answer_git(&c);
    if (strcmp(c.word, "store") == 0 || strcmp(c.word, "erase") == 0)
        return 0; /* others keep the file */
    if (strncmp(c.word, "http://", 7) == 0 || strncmp(c.word, "https://", 8) == 0)
        return answer_apt(&c);
    return misuse("it wants get, store or erase, or the URL that apt asks about, not ", c.word);
}
