/* Pins: the first source keeps a token until it is over, also when several processes ask at once. */
#include "authz/pins.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/moment.h"

static const unsigned char *print_of(unsigned n)
{
    static unsigned char print[32];

    EVP_Q_digest(NULL, "SHA256", NULL, &n, sizeof n, print, NULL);
    return print;
}

static void the_first_source_keeps_the_token_until_it_is_over(void **state)
{
    struct pins *p = pins_create(16, NULL);

    (void)state;
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50));
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50));
    assert_false(pins_hold(p, print_of(1), SLICE("10.0.0.2"), 100, 50));
    assert_false(pins_hold(p, print_of(1), SLICE("10.0.0.11"), 100, 50));
    assert_false(pins_hold(p, print_of(1), SLICE(""), 100, 50));
    assert_true(pins_hold(p, print_of(2), SLICE("10.0.0.2"), 100, 50));
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 99));
    pins_free(p);
}

static void a_full_table_refuses_and_has_room_again_when_tokens_are_over(void **state)
{
    struct pins *p = pins_create(16, NULL);
    unsigned held = 0, refused = 0, again = 0;

    (void)state;
    for (unsigned n = 0; n < 500; n++)
        *(pins_hold(p, print_of(n), SLICE("10.0.0.1"), 100, 50) ? &held : &refused) += 1;
    assert_true(held >= 16);
    assert_true(refused > 0);
    for (unsigned n = 0; n < 500; n++)
        assert_false(pins_hold(p, print_of(n), SLICE("10.0.0.2"), 100, 50));
    for (unsigned n = 1000; n < 1016; n++)
        again += pins_hold(p, print_of(n), SLICE("10.0.0.2"), 200, 100);
    assert_int_equal(again, 16);
    pins_free(p);
}

static void a_table_made_for_so_many_has_room_for_them(void **state)
{
    struct pins *p = pins_create(8192, NULL);

    (void)state;
    for (unsigned n = 0; n < 8192; n++)
        if (!pins_hold(p, print_of(n), SLICE("10.0.0.1"), 100, 50))
            fail_msg("no room for token %u", n);
    pins_free(p);
}

/* Four processes show the same tokens from four sources; each token must end with one of them. */
static void of_many_at_once_one_is_first(void **state)
{
    enum { PROCESSES = 4, TOKENS = 2000 };
    struct pins *p = pins_create(4096, NULL);
    unsigned char *won = mmap(NULL, PROCESSES * TOKENS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    (void)state;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            struct pins *mine = pins_map(pins_fd(p), NULL);
            char source[16];

            snprintf(source, sizeof source, "10.0.0.%d", i);
            for (unsigned n = 0; n < TOKENS; n++)
                won[i * TOKENS + (int)n] = pins_hold(mine, print_of(n), slice_of(source), 100, 50);
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    for (int n = 0; n < TOKENS; n++) {
        int winners = 0;

        for (int i = 0; i < PROCESSES; i++)
            winners += won[i * TOKENS + n];
        if (winners != 1)
            fail_msg("token %d has %d owners", n, winners);
    }
    munmap(won, PROCESSES * TOKENS);
    pins_free(p);
}

static bool show(void *arg, unsigned who, unsigned n)
{
    return pins_hold(arg, print_of(n), who ? SLICE("10.0.0.1") : SLICE("10.0.0.2"), 100, 50);
}

static void of_two_in_one_moment_one_is_first(void **state)
{
    struct pins *p = pins_create(4096, NULL);
    struct moments *m = moments_run(show, p);

    (void)state;
    for (unsigned n = 0; n < MOMENTS; n++)
        if (m->won[0][n] == m->won[1][n])
            fail_msg("token %u has %s", n, m->won[0][n] ? "two owners" : "none");
    moments_free(m);
    pins_free(p);
}

/* Where in the memory the token stands; asserted to be there. */
static _Atomic uint64_t *word_of(_Atomic uint64_t *memory, size_t n_words, const unsigned char *print)
{
    uint64_t token;

    memcpy(&token, print, sizeof token);
    for (size_t i = 0; i < n_words; i++)
        if (atomic_load(&memory[i]) == (token | 1))
            return &memory[i];
    fail_msg("the token is not there");
    return NULL;
}

/* A place that somebody fills just now holds a 2. Nobody gets a second one for what it may hold. */
static void a_place_that_is_being_filled_is_waited_for_and_one_that_was_left_so_is_nobodys(void **state)
{
    struct pins *p = pins_create(16, NULL);
    size_t len = (size_t)lseek(pins_fd(p), 0, SEEK_END);
    _Atomic uint64_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, pins_fd(p), 0), *word;
    uint64_t token;
    int status;

    (void)state;
    assert_true(memory != MAP_FAILED);
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50));
    word = word_of(memory, len / sizeof *memory, print_of(1));
    token = atomic_load(word);

    atomic_store(word, 2);
    if (fork() == 0) {
        usleep(20 * 1000);
        atomic_store(word, token);
        _exit(0);
    }
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50)); /* waited for */
    assert_true(wait(&status) > 0);
    assert_false(pins_hold(p, print_of(1), SLICE("10.0.0.2"), 100, 50));

    atomic_store(word, 2); /* who filled it was killed there */
    assert_false(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50));
    assert_false(pins_hold(p, print_of(1), SLICE("10.0.0.2"), 100, 101));
    munmap((void *)memory, len);
    pins_free(p);
}

static void memory_that_holds_no_pins_is_refused(void **state)
{
    int fd = memfd_create("x", MFD_ALLOW_SEALING);
    struct fault why = {0};

    (void)state;
    assert_null(pins_map(-1, &why));
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_null(pins_map(fd, &why));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_null(pins_map(fd, &why));
    assert_int_equal(why.kind, FAULT_REFUSED);
    close(fd);
}

/* The same bytes, in memory that another could cut short under us. */
static void memory_that_is_not_sealed_is_refused(void **state)
{
    struct pins *p = pins_create(16, NULL), *copied;
    int fd = memfd_create("x", MFD_ALLOW_SEALING);
    char bytes[65536];
    ssize_t n = pread(pins_fd(p), bytes, sizeof bytes, 0);

    (void)state;
    assert_true(n > 0);
    assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
    assert_null(pins_map(fd, NULL));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_non_null(copied = pins_map(fd, NULL));
    pins_free(copied);
    pins_free(p);
    close(fd);
}

/* Every worker can write there. One that was taken over gets no other to reach past the memory, nor has those that come later refuse. */
static void who_writes_over_the_head_harms_nobody(void **state)
{
    struct pins *p = pins_create(16, NULL), *there = pins_map(pins_fd(p), NULL), *later;
    unsigned char bytes[32];

    (void)state;
    assert_true(pins_hold(there, print_of(1), SLICE("10.0.0.1"), 100, 50));
    memset(bytes, 0xfe, sizeof bytes);
    assert_int_equal(pwrite(pins_fd(p), bytes, sizeof bytes, 0), sizeof bytes);
    for (unsigned n = 1; n < 100; n++)
        assert_true(pins_hold(there, print_of(n), SLICE("10.0.0.1"), 100, 50));
    pins_mend(p);
    assert_non_null(later = pins_map(pins_fd(p), NULL));
    assert_true(pins_hold(later, print_of(1), SLICE("10.0.0.1"), 100, 50));
    assert_false(pins_hold(later, print_of(1), SLICE("10.0.0.2"), 100, 50));
    pins_free(later);
    pins_free(there);
    pins_free(p);
}

/* Of one that was taken over: all of them, and nobody would be held any more. Between two looks whoever fills one is let be. */
static void places_that_a_worker_died_in_are_free_again(void **state)
{
    enum { HEAD = 32, PLACE = 24, PLACES = 256 };
    static const uint64_t taken = 2;
    struct pins *p = pins_create(16, NULL);

    (void)state;
    assert_true(pins_hold(p, print_of(1), SLICE("10.0.0.1"), 100, 50));
    for (off_t i = 0; i < PLACES; i++)
        assert_int_equal(pwrite(pins_fd(p), &taken, sizeof taken, HEAD + i * PLACE), sizeof taken);
    pins_look(p);
    assert_false(pins_hold(p, print_of(2), SLICE("10.0.0.1"), 100, 50));
    pins_look(p);
    assert_true(pins_hold(p, print_of(2), SLICE("10.0.0.1"), 100, 50));
    pins_look(p);
    pins_look(p);
    assert_true(pins_hold(p, print_of(2), SLICE("10.0.0.1"), 100, 50)); /* what is held stays */
    assert_false(pins_hold(p, print_of(2), SLICE("10.0.0.2"), 100, 50));
    pins_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_source_keeps_the_token_until_it_is_over),
        cmocka_unit_test(a_full_table_refuses_and_has_room_again_when_tokens_are_over),
        cmocka_unit_test(a_table_made_for_so_many_has_room_for_them),
        cmocka_unit_test(of_many_at_once_one_is_first),
        cmocka_unit_test(of_two_in_one_moment_one_is_first),
        cmocka_unit_test(a_place_that_is_being_filled_is_waited_for_and_one_that_was_left_so_is_nobodys),
        cmocka_unit_test(memory_that_holds_no_pins_is_refused),
        cmocka_unit_test(memory_that_is_not_sealed_is_refused),
        cmocka_unit_test(who_writes_over_the_head_harms_nobody),
        cmocka_unit_test(places_that_a_worker_died_in_are_free_again),
    };

    return cmocka_run_group_tests_name("pins", tests, NULL, NULL);
}
