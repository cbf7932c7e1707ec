/* Where listeners are: what is read, what collides, and the unix sockets that are made. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/place.h"

#define LONG "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *name, *text;
    bool good;
    enum place_kind kind;
} texts[] = {
    {"IPv4 and port", "127.0.0.1:3128", true, PLACE_TCP},
    {"IPv6 and port", "[::1]:3128", true, PLACE_TCP},
    {"a port the kernel chooses", "127.0.0.1:0", true, PLACE_TCP},
    {"a name is no address", "localhost:3128", false, PLACE_TCP},
    {"nothing", "", false, PLACE_TCP},
    {"a unix socket", "unix:/run/exeat/vm1.sock", true, PLACE_UNIX},
    {"a VMM's, for the guest's port 3128", "unix:/run/fc/vm1.vsock_3128", true, PLACE_UNIX},
    {"a unix socket beside the caller", "unix:vm1.sock", false, PLACE_UNIX},
    {"a unix socket without a name", "unix:", false, PLACE_UNIX},
    {"the longest name", "unix:" LONG, true, PLACE_UNIX},
    {"one more", "unix:" LONG "a", false, PLACE_UNIX},
    {"a guest's vsock", "vsock:3:3128", true, PLACE_VSOCK},
    {"vsock without the guest", "vsock:3128", false, PLACE_VSOCK},
    {"vsock of the host itself", "vsock:2:3128", false, PLACE_VSOCK},
    {"vsock of anybody", "vsock:4294967295:3128", false, PLACE_VSOCK},
    {"vsock, port 0", "vsock:3:0", false, PLACE_VSOCK},
    {"vsock, no number", "vsock:vm:3128", false, PLACE_VSOCK},
    {"another scheme", "tcp:127.0.0.1:3128", false, PLACE_TCP},
};

static void test_texts(void **state)
{
    (void)state;
    assert_int_equal(strlen(LONG), PLACE_PATH_MAX);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fault why = {0};
        struct place p;
        bool good = place_parse(texts[i].text, &p, &why);

        if (good != texts[i].good || (good && p.kind != texts[i].kind) || (!good && !why.text[0]))
            fail_msg("%s: %s", texts[i].name, why.text);
    }
}

static const struct {
    const char *name, *a, *b;
    bool collide;
} pairs[] = {
    {"one address twice", "127.0.0.1:1", "127.0.0.1:1", true},
    {"two ports", "127.0.0.1:1", "127.0.0.1:2", false},
    {"one of all addresses", "0.0.0.0:1", "127.0.0.1:1", true},
    {"two families", "0.0.0.0:1", "[::]:1", false},
    {"ports the kernel chooses", "127.0.0.1:0", "127.0.0.1:0", false},
    {"one path twice", "unix:/run/a", "unix:/run/a", true},
    {"two paths", "unix:/run/a", "unix:/run/b", false},
    {"one vsock port for two guests", "vsock:3:1", "vsock:4:1", true},
    {"two vsock ports", "vsock:3:1", "vsock:3:2", false},
    {"two kinds", "vsock:3:1", "127.0.0.1:1", false},
};

static void test_collisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct place a, b;

        assert_true(place_parse(pairs[i].a, &a, NULL) && place_parse(pairs[i].b, &b, NULL));
        if (place_collides(&a, &b) != pairs[i].collide || place_collides(&b, &a) != pairs[i].collide)
            fail_msg("%s", pairs[i].name);
    }
}

static const struct {
    const char *text;
    bool good;
    uid_t uid;
    gid_t gid;
} owners[] = {
    {"", true, (uid_t)-1, (gid_t)-1},    {"root", true, 0, (gid_t)-1},  {"1000", true, 1000, (gid_t)-1},
    {"root:root", true, 0, 0},           {"1000:44", true, 1000, 44},   {":44", true, (uid_t)-1, 44},
    {"no such user", false, 0, 0},       {"root:", false, 0, 0},        {"root:no such", false, 0, 0},
};

static void test_owners(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        struct place_owner o;
        struct fault why = {0};
        bool good = place_owner_find(owners[i].text, &o, &why);

        if (good != owners[i].good || (good && (o.uid != owners[i].uid || o.gid != owners[i].gid)))
            fail_msg("%s: %s", owners[i].text, why.text);
    }
}

static char directory[64], path[96], text[128];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/exeat-place-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/s", directory);
    snprintf(text, sizeof text, "unix:%s", path);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static int open_it(const struct place_owner *owner)
{
    struct place p;

    assert_true(place_parse(text, &p, NULL));
    return place_listen(&p, false, owner);
}

static const struct place_owner nobody_else = {(uid_t)-1, (gid_t)-1};

static void test_a_socket_is_its_owners_alone(void **state)
{
    struct place_owner with_group = {(uid_t)-1, getgid()};
    struct stat st;
    int fd = open_it(&nobody_else), again;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    again = open_it(&with_group); /* in the place of the one that a crash left */
    assert_true(again >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(st.st_gid, getgid());
    close(fd);
    close(again);
}

static void test_no_other_file_is_replaced(void **state)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(open_it(&nobody_else), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(open_it(&nobody_else), -1);
    assert_int_equal(errno, EEXIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_owners),
        cmocka_unit_test_setup_teardown(test_a_socket_is_its_owners_alone, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_no_other_file_is_replaced, make_directory, remove_directory),
    };

    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
