/*
 * Owns the finding of libcurl: when an audit begins, and not before. It brings two dozen libraries with it, which no role of the
 * gateway has a use for, and which otherwise each of them would carry. The functions are libcurl's own, by their own names, as
 * <curl/curl.h> declares them. What is set is always a long or a pointer: both pass as one word.
 */
#include "audit/curl.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>

_Static_assert(sizeof(long) == sizeof(void *), "an option's value is one word");

static struct {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*easy_perform)(CURL *curl);
    void (*easy_cleanup)(CURL *curl);
    CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
    void (*easy_reset)(CURL *curl);
    CURLcode (*easy_recv)(CURL *curl, void *into, size_t len, size_t *n);
    CURLcode (*easy_send)(CURL *curl, const void *bytes, size_t len, size_t *n);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *line);
    void (*slist_free_all)(struct curl_slist *list);
} libcurl;

static const struct {
    const char *name;
    void *function; /* where its address goes */
} wanted[] = {
    {"curl_global_init", &libcurl.global_init},   {"curl_easy_setopt", &libcurl.easy_setopt},
    {"curl_easy_perform", &libcurl.easy_perform}, {"curl_easy_cleanup", &libcurl.easy_cleanup},
    {"curl_easy_getinfo", &libcurl.easy_getinfo}, {"curl_easy_reset", &libcurl.easy_reset},
    {"curl_easy_recv", &libcurl.easy_recv},       {"curl_easy_send", &libcurl.easy_send},
    {"curl_slist_append", &libcurl.slist_append}, {"curl_slist_free_all", &libcurl.slist_free_all},
    {"curl_easy_init", &libcurl.easy_init}, /* the last: with it all are there */
};

static bool find(struct fault *why)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *at;

    if (!library)
        return fault_set(why, FAULT_MISSING, "an audit needs libcurl: install Debian's libcurl4 (%s)", dlerror());
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!(at = dlsym(library, wanted[i].name)))
            return fault_set(why, FAULT_MISSING, "this libcurl is none that an audit can use: install Debian's libcurl4 (%s)", dlerror());
        *(void **)wanted[i].function = at; /* POSIX has it so, for dlsym */
    }
    return true;
}

bool curl_begin(struct fault *why)
{
    if (!libcurl.easy_init && !find(why))
        return false;
    return libcurl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK || fault_set(why, FAULT_IO, "libcurl does not start");
}

CURL *curl_easy_init(void)
{
    CURL *curl = libcurl.easy_init();

    if (!curl)
        abort();
    return curl;
}

CURLcode (curl_easy_setopt)(CURL *curl, CURLoption option, ...)
{
    va_list rest;
    void *value;

    va_start(rest, option);
    value = va_arg(rest, void *);
    va_end(rest);
    return libcurl.easy_setopt(curl, option, value);
}

CURLcode curl_easy_perform(CURL *curl)
{
    return libcurl.easy_perform(curl);
}

void curl_easy_cleanup(CURL *curl)
{
    if (curl)
        libcurl.easy_cleanup(curl);
}

CURLcode (curl_easy_getinfo)(CURL *curl, CURLINFO info, ...)
{
    va_list rest;
    void *value;

    va_start(rest, info);
    value = va_arg(rest, void *);
    va_end(rest);
    return libcurl.easy_getinfo(curl, info, value);
}

void curl_easy_reset(CURL *curl)
{
    libcurl.easy_reset(curl);
}

CURLcode curl_easy_recv(CURL *curl, void *into, size_t len, size_t *n)
{
    return libcurl.easy_recv(curl, into, len, n);
}

CURLcode curl_easy_send(CURL *curl, const void *bytes, size_t len, size_t *n)
{
    return libcurl.easy_send(curl, bytes, len, n);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *line)
{
    return libcurl.slist_append(list, line);
}

void curl_slist_free_all(struct curl_slist *list)
{
    if (list)
        libcurl.slist_free_all(list);
}
