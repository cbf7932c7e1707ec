/* Owns canaries.json and its lock. */
#include "canary/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"

static const struct conf_key canaries_keys[] = {
    {"file", CONF_PATH, "canaries.json", NULL, "the registry that exeat canary new writes; mode 0600", 0},
    {"on-leak", CONF_CHOICE, "block", "block|quarantine|observe",
     "what becomes of who sends a canary: the request is refused, and with quarantine nothing of that sandbox goes out any more", 0},
};

const struct conf_section canaries_section = {
    .name = "canaries",
    .keys = canaries_keys,
    .n_keys = sizeof canaries_keys / sizeof *canaries_keys,
    .help = "Synthetic secrets, planted to be caught on their way out.",
};

struct store {
    char *path;
    int lock;
    struct registry *registry;
};

struct registry *registry_load(const char *path, struct fault *why)
{
    struct fault reading = {0};
    struct secret *json = secret_read_file(path, CANARY_FILE_MAX, &reading);
    struct registry *r;

    if (!json && reading.kind == FAULT_MISSING)
        return registry_new();
    if (!json) {
        if (why)
            *why = reading;
        return NULL;
    }
    r = registry_parse(secret_slice(json), path, why);
    secret_free(json);
    return r;
}

static int take_lock(const char *path, struct fault *why)
{
    struct buf name = {0};
    char *text;
    int fd;

    buf_printf(&name, "%s.lock", path);
    text = buf_take_text(&name);
    fd = open(text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        fault_set(why, errno == EACCES ? FAULT_PERMISSION : FAULT_IO, "%s: %s", text, strerror(errno));
    } else if (flock(fd, LOCK_EX) < 0) {
        fault_set(why, FAULT_IO, "%s: cannot be locked: %s", text, strerror(errno));
        close(fd);
        fd = -1;
    }
    free(text);
    return fd;
}

struct store *store_open(const char *path, struct fault *why)
{
    struct store *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->path = text_copy(slice_of(path));
    s->lock = take_lock(path, why);
    if (s->lock >= 0)
        s->registry = registry_load(path, why);
    if (!s->registry) {
        store_close(s);
        return NULL;
    }
    return s;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    if (s->lock >= 0)
        close(s->lock);
    registry_free(s->registry);
    free(s->path);
    free(s);
}

struct registry *store_registry(struct store *s)
{
    return s->registry;
}

bool store_save(struct store *s, struct fault *why)
{
    struct buf json = {0};
    bool ok;

    registry_json(s->registry, &json);
    ok = file_replace(s->path, 0600, buf_slice(&json), why);
    buf_wipe(&json);
    return ok;
}
