/*
 * Listeners as they are written: in the configuration's `listen`, and those that `exeat listener add` made, which are kept in the
 * file `listeners.conf` of the state directory, in the same words. What no table can judge, for both.
 */
#ifndef PROXY_LISTEN_CHECK_H
#define PROXY_LISTEN_CHECK_H

#include "base/conf.h"
#include "net/place.h"

/* The one section that listeners.conf has. */
const struct conf_section *const *listen_sections(size_t *n);
/* The file of the state directory; what there is none of is empty. */
struct conf *listen_added_load(const char *state, struct fault *why);
/* What is written there for it: a line, with its newline. */
void listen_added_write(struct buf *out, const struct conf_item *l);

/* Is there a listener of this name, configured or added? */
bool listen_is_known(const struct conf *c, const char *name);

/* Each by itself and all with each other and with publish.address; path names the configuration. */
bool listen_check(const struct conf *c, const struct conf *added, const char *path, struct fault *why);

#endif
