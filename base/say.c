#include "base/say.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char speaker[32];
static enum say_level most = SAY_NOTE;

void say_as(const char *role)
{
    snprintf(speaker, sizeof speaker, "%s", role);
}

void say_level(enum say_level level)
{
    most = level;
}

bool say_is_debug(void)
{
    return most >= SAY_DEBUG;
}

static void say(enum say_level level, const char *format, va_list args)
{
    static const char *const marks[] = {"error: ", "warning: ", "", ""};
    char line[1024];
    int front;

    if (level > most)
        return;
    front = snprintf(line, sizeof line - 1, "exeat%s%s: %s", speaker[0] ? " " : "", speaker, marks[level]);
    vsnprintf(line + front, sizeof line - 1 - (size_t)front, format, args);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    size_t len = strlen(line);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nobody left to tell */
}

#define SAY(name, level)                \
    void name(const char *format, ...)  \
    {                                   \
        va_list args;                   \
        va_start(args, format);         \
        say(level, format, args);       \
        va_end(args);                   \
    }

SAY(say_error, SAY_ERROR)
SAY(say_warning, SAY_WARNING)
SAY(say_note, SAY_NOTE)
SAY(say_debug, SAY_DEBUG)
