/* Probes that several groups send: writing in a service's own way, and taking it back; listing what came. */
#ifndef AUDIT_PROBES_H
#define AUDIT_PROBES_H

#include "audit/check.h"
#include "base/text.h"

enum { TAG_WRITE = 100, TAG_READ, TAG_WRITER /* read by who wrote it */, TAG_REMOVE, TAG_GONE };

/* Something that was written, or tried. Texts belong to the evidence. */
struct written {
    enum who who;
    const char *name;  /* package, repository or path */
    const char *nonce;   /* in the name */
    const char *content; /* another, in the content alone: an answer that repeats the name does not hold it */
    size_t padding;      /* bytes of content beside the canary's */
    const char *read;  /* the path by which it is read */
    const char *remove, *remove_method; /* NULL: nothing to remove */
    struct turn *answer; /* to the write; its 2xx says that it stands */
};

/*
 * Write (http: PUT, npm: publish, oci: a blob) or, of oci, only begin to; the body holds the nonce. False when nothing may be
 * written (missing is set). The exchange is tagged TAG_WRITE.
 */
bool write_whole(struct evidence *e, const char *key, enum who who, struct written *w);
/* The same with this much content, at least. */
bool write_sized(struct evidence *e, const char *key, enum who who, size_t len, struct written *w);
bool write_begin(struct evidence *e, const char *key, enum who who, struct written *w);
/* The same once more (npm, http). */
struct turn *write_again(struct evidence *e, const struct written *w);
/* Read it as somebody; tagged TAG_READ. */
struct turn *write_read(struct evidence *e, const struct written *w, enum who who);
/* Does the writer? Tagged TAG_WRITER. */
struct turn *write_read_own(struct evidence *e, const struct written *w);
/* Remove it and see that it is gone; what stays is noted as left behind. */
void write_undo(struct evidence *e, const struct written *w);
/* A whole `send`: begin an upload in parts, have nobody read its state, take it back. n/a where such uploads are not known. */
void send_unfinished(struct evidence *e);
/* Take back what a POST to path made: at its Location, or by its id; else it is noted as left behind. Nothing, when it was refused. */
void made_undo(struct evidence *e, const struct turn *x, const char *path);
/* Would git be pushed to (its advertisement, tagged TAG_WRITE)? Nothing is sent where no protected path is git's. */
void send_git_push(struct evidence *e, enum who who);
void remove_account(struct evidence *e, const char *nonce, const struct turn *made);
/* A 2xx that any path gets, and that nobody behind the service saw: whether anything was done is not in it. */
bool is_page_for_all(const struct evidence *e, const struct turn *x);
/* The verdict of a write that should be refused: fail when it was done, pass when it was refused. */
void judge_write(const struct evidence *e, struct finding *f, const char *what);

/* Judges that several rows have: each token must be refused (RP, AS, TV); which credentials came to the listener (CR-5, FU-9). */
void judge_tokens(const struct evidence *e, struct finding *f);
/* What one caller wrote (TAG_WRITE), others do not read (TAG_READ); one of the nonces is in it, and not in its name (XT-1, XT-6, CN-3). */
void judge_readable(const struct evidence *e, struct finding *f);
/* The longest target that was read, in bytes (UP-2); more than this is too much. */
enum { COVERT_MAX = 8 * 1024 };
size_t covert_bytes(const struct evidence *e);
/* FU-9 and CR-5 look at who came because of this one. */
bool check_counts_calls(const struct check *c);
void judge_credentials_at_listener(const struct evidence *e, struct finding *f);
/* What tokens are tried on, and whether there is anything to judge them by (else missing or n/a is set). */
const struct baseline *token_place(const struct evidence *e);
bool token_counts(struct evidence *e);
bool token_can_be_made(struct evidence *e);
struct mold;
/* Make a token and show it; the variant says what is wrong with it. */
struct turn *token_show(struct evidence *e, const struct mold *m, const char *variant, int tag);

/* Has this compact token (not verified) access entries or a scope? An opaque one has. */
bool token_grants(struct slice token);
/* A page of our own upstream's: the service only passed it on. */
bool is_ours(const struct turn *x);
/* Who came to the listener, "unlisted.test (GET, with Authorization)", for notes. */
const char *describe_hit(const struct hit *h, char out[120]);

/* The host:port of a Host field for a place of the listener's. */
const char *host_port(struct evidence *e, const char *host, unsigned port);

#endif
