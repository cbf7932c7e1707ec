/*
 * The clerk's part of a token exchange (RFC 8693): it speaks to the token endpoint, by a descriptor that the porter dialled,
 * checked and recorded, so that the clerk itself can neither resolve nor connect. It composes nothing: form and
 * authorization are the keeper's; to which endpoint they go is its own configuration's.
 */
#ifndef PROXY_BROKER_H
#define PROXY_BROKER_H

#include "proxy/asks.h"
#include "proxy/recorder.h"
#include "proxy/role.h"

/* Works by the set that context holds now, and by each later one after broker_use. context, porter and recorder are kept. */
void broker_open(struct role_context *context, struct asks *porter, struct recorder *recorder);
void broker_use(void);
/* Takes fd: the channel. */
void broker_attach_keeper(int fd);
/* The end: who waits hears no more. */
void broker_close(void);

#endif
