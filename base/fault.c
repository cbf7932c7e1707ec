#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fault fault_none = {0};

enum { TEXT_LEN = sizeof(((struct fault *)0)->text) };

static void fill(struct fault *why, enum fault_kind kind, enum reason reason, const char *format, va_list args)
{
    if (!why)
        return;
    why->kind = kind;
    why->reason = reason;
    vsnprintf(why->text, sizeof why->text, format, args);
    for (char *p = why->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
}

bool fault_set(struct fault *why, enum fault_kind kind, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fill(why, kind, REASON_NONE, format, args);
    va_end(args);
    return false;
}

bool fault_reason(struct fault *why, enum reason reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fill(why, FAULT_REFUSED, reason, format, args);
    va_end(args);
    return false;
}

void fault_prefix(struct fault *why, const char *format, ...)
{
    char front[TEXT_LEN], whole[2 * TEXT_LEN + 3];
    va_list args;

    if (!why)
        return;
    va_start(args, format);
    vsnprintf(front, sizeof front, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s: %s", front, why->text);
    memcpy(why->text, whole, sizeof why->text - 1);
    why->text[sizeof why->text - 1] = '\0';
}

void fault_clear(struct fault *why)
{
    if (why)
        *why = (struct fault){0};
}

struct fault *fault_kept(struct fault **at)
{
    if (!*at && !(*at = calloc(1, sizeof **at)))
        abort();
    return *at;
}
