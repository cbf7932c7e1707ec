/*
 * A canary for one run: minted into the gateway's registry, known to every process of the running gateway, and taken back afterwards.
 * The gateway learns of it by a reload, and that is only asked for when it would bring nothing else.
 */
#ifndef CMD_PLANTING_H
#define CMD_PLANTING_H

#include "proxy/config.h"

struct json_t;
struct planting;

/*
 * What the running gateway says of itself (give): its status. NULL and why: nobody answers, or it works by another configuration
 * than the one that was read.
 */
struct json_t *planting_ask(const struct gateway_config *c, const char *path, struct fault *why);
/*
 * Plant one for this sandbox; canaries that earlier runs left behind are taken out. NULL and why. c is kept. Give: planting_end().
 */
struct planting *planting_begin(const struct gateway_config *c, const char *sandbox, struct fault *why);
const char *planting_id(const struct planting *p);
struct slice planting_canary(const struct planting *p);
/* A text of the same form that nobody looks for. */
struct slice planting_control(const struct planting *p);
/* Take it back. False and why: it is still looked for, which hurts nobody. Frees p either way; NULL is fine. */
bool planting_end(struct planting *p, struct fault *why);

#endif
