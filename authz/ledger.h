/*
 * The ledger: the file that revocations, quarantines and closed services are kept in, one JSON object a line, appended under a lock (flock) and
 * synced:
 *
 *     {"schema":"exeat.revocation/1","at":"2026-01-02T03:04:05Z","kind":"jti","value":"...","until":1767323045}
 *     {"schema":"exeat.revocation/1","at":"2026-01-02T03:04:05Z","kind":"quarantine","value":"vm1","until":0,
 *      "by":"admin","uid":0,"why":"it sent a canary"}
 *     {"schema":"exeat.revocation/1","at":"2026-01-02T04:04:05Z","kind":"release","value":"vm1","until":0,"by":"admin","uid":0}
 *     {"schema":"exeat.revocation/1","at":"2026-01-02T05:04:05Z","kind":"close","value":"npm","until":0,"by":"admin","uid":0,"why":"it relays"}
 */
#ifndef AUTHZ_LEDGER_H
#define AUTHZ_LEDGER_H

#include "authz/revocation.h"

struct ledger_entry {
    enum revocation_kind kind;
    struct slice value;
    int64_t until_s; /* 0: for good */
    /* of what is suspended, and its end; "" and -1: not said */
    struct slice by, why; /* "admin", "gateway", "file"; for people */
    int64_t uid;
    struct slice at; /* RFC 3339; when it is read */
};

/*
 * Call visit for each entry, oldest first; the value is borrowed for the call. No file is an empty one. A line that
 * cannot be read is an error with its number, save a last one without its newline: a crash cut it off before it
 * was confirmed to anybody.
 */
bool ledger_read(const char *path, void (*visit)(void *arg, const struct ledger_entry *e), void *arg,
                 struct fault *why);
/* Add a line and sync it. Makes the file (0600) when there is none. */
bool ledger_append(const char *path, const struct ledger_entry *e, struct fault *why);
/*
 * Write the file anew without the entries that ended before now_s, and suspensions that are over, when there are any. A clock
 * may be far ahead, and what is dropped by it is gone for good: nothing is that ended after the newest line was written.
 */
bool ledger_compact(const char *path, int64_t now_s, struct fault *why);

#endif
