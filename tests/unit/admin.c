/* Asking the running gateway: what counts as an answer, and what is said when there is none. */
#include "cmd/admin.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64], address[112];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/exeat-admin-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(address, sizeof address, "unix:%s/admin.sock", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(address + 5);
    return rmdir(directory);
}

static int listen_here(void)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(sun.sun_path, sizeof sun.sun_path, "%s", address + 5);
    unlink(sun.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/* A gateway for one question: it wants this line and writes these bytes, then hangs up. */
static pid_t answer_once(const char *wanted, const char *answer)
{
    int fd = listen_here(), client;
    pid_t pid = fork();
    char line[256];
    size_t len = 0;

    if (pid) {
        close(fd);
        return pid;
    }
    client = accept(fd, NULL, NULL);
    while (len + 1 < sizeof line && read(client, line + len, 1) == 1 && line[len] != '\n')
        len++;
    line[len] = '\0';
    if (send(client, answer, strlen(answer), MSG_NOSIGNAL) < 0)
        _exit(2);
    close(client);
    _exit(strcmp(line, wanted) != 0);
}

static void answers_are_read_or_refused(void **state)
{
    static const struct {
        const char *name, *answer;
        enum fault_kind kind; /* FAULT_NONE: an object */
        const char *says;
    } rows[] = {
        {"yes", "{\"ok\":true,\"n\":7}\n", FAULT_NONE, NULL},
        {"no", "{\"ok\":false,\"error\":\"full\"}\n", FAULT_REFUSED, "full"},
        {"no without a word", "{\"ok\":false}\n", FAULT_SYNTAX, "not one of a gateway"},
        {"no verdict", "{}\n", FAULT_SYNTAX, "not one of a gateway"},
        {"verdict a text", "{\"ok\":\"true\"}\n", FAULT_SYNTAX, "not one of a gateway"},
        {"verdict twice", "{\"ok\":false,\"ok\":true}\n", FAULT_SYNTAX, "not one of a gateway"},
        {"not JSON", "hello\n", FAULT_SYNTAX, "not one of a gateway"},
        {"empty line", "\n", FAULT_SYNTAX, "not one of a gateway"},
        {"cut off before the newline", "{\"ok\":true}", FAULT_IO, NULL},
        {"nothing", "", FAULT_IO, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pid_t pid = answer_once("{\"command\":\"status\"}", rows[i].answer);
        struct fault why = {0};
        json_t *answer = admin_call(address, SLICE("{\"command\":\"status\"}"), &why);
        int status;

        if (why.kind != rows[i].kind || (answer != NULL) != (rows[i].kind == FAULT_NONE) ||
            (rows[i].says && !strstr(why.text, rows[i].says)))
            fail_msg("%s: %s", rows[i].name, answer ? "accepted" : why.text);
        if (answer && json_integer_value(json_object_get(answer, "n")) != 7)
            fail_msg("%s: not what was sent", rows[i].name);
        json_decref(answer);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status)
            fail_msg("%s: the question did not arrive", rows[i].name);
    }
}

static void without_a_gateway_that_is_what_is_said(void **state)
{
    struct fault why = {0};

    (void)state;
    assert_null(admin_call(address, SLICE("{}"), &why));
    assert_int_equal(why.kind, FAULT_MISSING);
    assert_non_null(strstr(why.text, "no gateway listens"));
    close(listen_here()); /* a socket that a dead gateway left behind */
    assert_null(admin_call(address, SLICE("{}"), &why));
    assert_int_equal(why.kind, FAULT_MISSING);
}

static void addresses_that_are_no_unix_socket_are_refused(void **state)
{
    struct fault why = {0};
    char far[200] = "unix:/";

    (void)state;
    memset(far + 6, 'x', 150);
    assert_null(admin_call("127.0.0.1:1", SLICE("{}"), &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_null(admin_call("unix:relative", SLICE("{}"), &why));
    assert_int_equal(why.kind, FAULT_USAGE);
    assert_null(admin_call(far, SLICE("{}"), &why));
    assert_int_equal(why.kind, FAULT_USAGE);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(answers_are_read_or_refused),
        ROW(without_a_gateway_that_is_what_is_said),
        ROW(addresses_that_are_no_unix_socket_are_refused),
    };

    return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
