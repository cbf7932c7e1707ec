/*
 * The owner's manifest: which services may be audited, where their packets may go, with which credentials, what may be
 * written. Everything the audit sends is held against it. docs/handoff.md explains the keys.
 */
#ifndef AUDIT_MANIFEST_H
#define AUDIT_MANIFEST_H

#include "base/conf.h"
#include "net/addr.h"

struct manifest;

/* Read it; NULL and why (with its place) when it is refused. No packet is sent, no name looked up. */
struct manifest *manifest_load(const char *path, struct fault *why);
/* The same from text; name is for errors, directory anchors file names. */
struct manifest *manifest_parse(struct slice text, const char *name, const char *directory, struct fault *why);
void manifest_free(struct manifest *m);

/* Whole numbers and texts by the names of their keys; "owner", "reach", "listener", "upstream". */
const struct conf_item *manifest_section(const struct manifest *m, const char *section);
/* May a packet go to this address? Only into the ranges, and never to metadata services. */
bool manifest_reaches(const struct manifest *m, const struct addr *a);
/* Is all that it reaches loopback? */
bool manifest_is_loopback(const struct manifest *m);

/* The item of a service; NULL when there is none. */
const struct conf_item *manifest_find(const struct manifest *m, const char *service);
/* The names of its services; NULL: no more. */
const char *manifest_service_name(const struct manifest *m, size_t i);

extern const struct conf_section *const manifest_sections[];
extern const size_t manifest_n_sections;

#endif
