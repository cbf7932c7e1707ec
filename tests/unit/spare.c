/* Blocks that are used again. */
#include "base/spare.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every size gives that many bytes of its own, whatever was put back before. */
static void blocks_are_whole_and_apart(void **state)
{
    enum { N = 40 };
    static const size_t sizes[] = {1, 63, 64, 65, 128, 1000, 1024, 1025, 16384, 16385, 100000};

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int round = 0; round < 3; round++) {
            unsigned char *blocks[N];

            for (int i = 0; i < N; i++)
                memset(blocks[i] = spare_get(sizes[s]), i, sizes[s]);
            for (int i = 0; i < N; i++) {
                assert_int_equal(blocks[i][0], i);
                assert_int_equal(blocks[i][sizes[s] - 1], i);
                spare_put(blocks[i], sizes[s]);
            }
        }
}

static void zeroed_is_zeroed_after_use(void **state)
{
    unsigned char *block;

    (void)state;
    for (int round = 0; round < 2; round++) {
        block = spare_get_zeroed(300);
        for (size_t i = 0; i < 300; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xff, 300);
        spare_put(block, 300);
    }
}

/* More than are kept go back to the allocator: nothing is lost (the leak checker of `make sanitize` looks on). */
static void many_may_be_put_back(void **state)
{
    static void *blocks[500];

    (void)state;
    for (size_t i = 0; i < 500; i++)
        blocks[i] = spare_get(4096);
    for (size_t i = 0; i < 500; i++)
        spare_put(blocks[i], 4096);
    spare_put(NULL, 4096);
}

/* The listener of an audit is a thread, and both work with buffers. */
static void *takes_and_puts_back(void *arg)
{
    const unsigned char mark = *(const unsigned char *)arg;
    void *wrong = NULL;

    for (int round = 0; round < 20000 && !wrong; round++) {
        unsigned char *a = spare_get(1000), *b = spare_get(1000);

        memset(a, mark, 1000);
        memset(b, mark, 1000);
        if (a == b || a[0] != mark || a[999] != mark)
            wrong = a;
        spare_put(a, 1000);
        spare_put(b, 1000);
    }
    return wrong;
}

static void threads_do_not_share_them(void **state)
{
    static unsigned char marks[] = {1, 2, 3};
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, takes_and_puts_back, &marks[i]), 0);
    for (size_t i = 0; i < 3; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_whole_and_apart),
        cmocka_unit_test(zeroed_is_zeroed_after_use),
        cmocka_unit_test(many_may_be_put_back),
        cmocka_unit_test(threads_do_not_share_them),
    };

    return cmocka_run_group_tests_name("spare", tests, NULL, NULL);
}
