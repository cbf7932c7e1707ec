/* The load generator's command line; the figures come as one JSON object on stdout. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/client.h"

static const char usage[] =
    "usage: load --connect ADDRESS --name HOST --ca FILE [option...]\n"
    "  --connect ADDRESS      the proxy or server, 127.0.0.1:8443\n"
    "  --name HOST            the origin's name\n"
    "  --ca FILE              what its certificate is verified by\n"
    "  --tunnel HOST:PORT     send CONNECT first\n"
    "  --token-file FILE      with this token; without a tunnel, in each request\n"
    "  --authority HOST:PORT  of requests, where it is not the name or the tunnel's\n"
    "  --path PATH            /1024\n"
    "  --upload BYTES         PUT a body instead of GET\n"
    "  --connections N        64\n"
    "  --requests N           10000, all connections together\n"
    "  --new                  a new connection for each request\n"
    "  --steps                open the connections with a request on each and report; then run as many requests as\n"
    "                         each line of standard input says, and report; connections stay\n"
    "Otherwise connections are opened first and not counted, but for --new.\n";

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);

    if (*end || end == text)
        die("%s: expected a number", text);
    return n;
}

static const char *read_token(const char *path)
{
    static char token[4096];
    FILE *f = fopen(path, "r");

    if (!f || !fgets(token, sizeof token, f))
        die("%s: cannot be read", path);
    fclose(f);
    token[strcspn(token, "\r\n")] = '\0';
    return token;
}

static struct plan read_options(int argc, char **argv, uint64_t *requests, bool *steps)
{
    static const struct option options[] = {
        {"connect", 1, NULL, 'c'},     {"name", 1, NULL, 'n'},  {"ca", 1, NULL, 'a'},
        {"tunnel", 1, NULL, 't'},      {"path", 1, NULL, 'p'},  {"upload", 1, NULL, 'u'},
        {"connections", 1, NULL, 'k'}, {"new", 0, NULL, 'w'},   {"token-file", 1, NULL, 'f'},
        {"requests", 1, NULL, 'r'},    {"steps", 0, NULL, 's'}, {"authority", 1, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct plan p = {.method = "GET", .path = "/1024", .connections = 64};
    const char *ca = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'c': p.address = optarg; break;
        case 'n': p.name = optarg; break;
        case 'a': ca = optarg; break;
        case 't': p.tunnel = optarg; break;
        case 'f': p.token = read_token(optarg); break;
        case 'p': p.path = optarg; break;
        case 'u': p.upload = number(optarg), p.method = "PUT"; break;
        case 'h': p.authority = optarg; break;
        case 'k': p.connections = (unsigned)number(optarg); break;
        case 'r': *requests = number(optarg); break;
        case 'w': p.is_new = true; break;
        case 's': *steps = true; break;
        default: fputs(usage, stderr); exit(2);
        }
    if (!p.address || !p.name || !ca || optind != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    p.tls = wire_client_context(ca);
    return p;
}

static void report(const struct tally *t)
{
    printf("{\"requests\":%llu,\"failures\":%llu,\"seconds\":%.3f,\"bytes_in\":%llu,"
           "\"us\":{\"p50\":%llu,\"p90\":%llu,\"p99\":%llu,\"max\":%llu}}\n",
           (unsigned long long)t->requests, (unsigned long long)t->failures, t->seconds,
           (unsigned long long)t->bytes_in, (unsigned long long)histogram_at(&t->latency, 500),
           (unsigned long long)histogram_at(&t->latency, 900), (unsigned long long)histogram_at(&t->latency, 990),
           (unsigned long long)t->latency.max);
    fflush(stdout);
}

/* True when all requests were answered. */
static bool run_steps(const struct plan *p, struct tally *t)
{
    char line[32];
    bool good = true;

    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        clients_run(p, number(line), t);
        report(t);
        good = good && !t->failures;
    }
    return good;
}

int main(int argc, char **argv)
{
    uint64_t requests = 10000;
    bool steps = false;
    struct plan p = read_options(argc, argv, &requests, &steps);
    static struct tally tally;
    bool good = true;

    wire_need_files(p.connections + 100);
    if (!p.is_new)
        clients_open(&p, &tally);
    good = !tally.failures;
    if (steps) {
        report(&tally);
        good = run_steps(&p, &tally) && good;
    } else {
        clients_run(&p, requests, &tally);
        report(&tally);
        good = good && !tally.failures;
    }
    return good ? 0 : 1;
}
