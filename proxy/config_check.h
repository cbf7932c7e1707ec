/* What no table can judge: values against each other. Private to proxy/config*. */
#ifndef PROXY_CONFIG_CHECK_H
#define PROXY_CONFIG_CHECK_H

#include "proxy/config.h"

/* Before any file is read: addresses, ports used twice, what this version does not have. Sets c->workers. */
bool config_check(struct gateway_config *c, const char *path, struct fault *why);
/* When the handoffs are compiled: are the credentials there, and nobody else's to read? */
bool config_check_sources(const struct gateway_config *c, struct fault *why);
/* After everything compiled: what is allowed and still worth a second look, into c->warnings. */
void config_warn(struct gateway_config *c);

#endif
