/* What differs between two listings: rows of the one there should be, the one there is, and what is said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "firewall/drift.h"

#define SOURCE                                                                                                                   \
    "# what people read\n"                                                                                                       \
    "table inet t\n"                                                                                                             \
    "delete table inet t\n"                                                                                                      \
    "\n"                                                                                                                         \
    "table inet t {\n"                                                                                                           \
    "    chain one {\n"                                                                                                          \
    "        type filter hook input priority 0; policy drop;\n"                                                                  \
    "        A { 1 }\n"                                                                                                          \
    "        B\n"                                                                                                                \
    "        C\n"                                                                                                                \
    "    }\n"                                                                                                                    \
    "    chain two {\n"                                                                                                          \
    "        D\n"                                                                                                                \
    "    }\n"                                                                                                                    \
    "}\n"
#define HEAD "table inet t {\n\tchain one {\n\t\ttype filter hook input priority 0; policy drop;\n"
#define END "\t}\n\n\tchain two {\n\t\td\n\t}\n}\n"
#define WANTED HEAD "\t\ta 1\n\t\tb\n\t\tc\n" END

static const struct row {
    const char *name, *there, *says; /* "missing 9 one b;" */
} rows[] = {
    {"the same", WANTED, ""},
    {"a rule is gone", HEAD "\t\ta 1\n\t\tc\n" END, "missing 9 chain one b;"},
    {"the first is gone", HEAD "\t\tb\n\t\tc\n" END, "missing 8 chain one a 1;"},
    {"all rules are gone", HEAD END, "missing 8 chain one a 1;missing 9 chain one b;missing 10 chain one c;"},
    {"a rule is changed", HEAD "\t\ta 2\n\t\tb\n\t\tc\n" END, "missing 8 chain one a 1;added 0 chain one a 2;"},
    {"a rule is added", HEAD "\t\ta 1\n\t\tx\n\t\tb\n\t\tc\n" END, "added 0 chain one x;"},
    {"a rule is there twice", HEAD "\t\ta 1\n\t\tb\n\t\tb\n\t\tc\n" END, "added 0 chain one b;"},
    {"two have changed places", HEAD "\t\tb\n\t\ta 1\n\t\tc\n" END, "moved 8 chain one a 1;"},
    {"the last has become the first", HEAD "\t\tc\n\t\ta 1\n\t\tb\n" END, "moved 10 chain one c;"},
    {"another policy",
     "table inet t {\n\tchain one {\n\t\ttype filter hook input priority 0; policy accept;\n\t\ta 1\n\t\tb\n\t\tc\n" END,
     "missing 7 chain one type filter hook input priority 0; policy drop;;added 0 chain one type filter hook input priority 0; "
     "policy accept;;"},
    {"another chain", WANTED "table inet u {\n}\n", "added 0  ;"},
    {"a chain is gone", HEAD "\t\ta 1\n\t\tb\n\t\tc\n\t}\n}\n", "missing 12 chain two ;"},
    {"a chain is added", HEAD "\t\ta 1\n\t\tb\n\t\tc\n\t}\n\tchain three {\n\t}\n\tchain two {\n\t\td\n\t}\n}\n", "added 0 chain three ;"},
    {"the table sleeps", "table inet t {\n\tflags dormant\n\n\tchain one {\n\t\ttype filter hook input priority 0; policy drop;\n\t\ta 1\n\t\tb\n\t\tc\n" END,
     "added 0  flags dormant;"},
    {"the table is gone", "", "missing 5  ;"},
};

static void note(void *arg, const struct drift *d)
{
    static const char *const kinds[] = {[DRIFT_MISSING] = "missing", [DRIFT_ADDED] = "added", [DRIFT_MOVED] = "moved"};

    buf_printf(arg, "%s %zu %.*s %.*s;", kinds[d->kind], d->line, SLICE_ARG(d->block), SLICE_ARG(d->text));
}

static void each_difference_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf there = {0}, says = {0};

        buf_text(&there, rows[i].there);
        drift_compare(SLICE(WANTED), buf_slice(&there), SLICE(SOURCE), note, &says);
        if (!slice_is(buf_slice(&says), rows[i].says))
            fail_msg("%s: %.*s", rows[i].name, SLICE_ARG(buf_slice(&says)));
        buf_free(&there);
        buf_free(&says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_difference_is_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
