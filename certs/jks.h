/* A Java trust store (the JKS format, which Java 8 to 21 read without being told a password). */
#ifndef CERTS_JKS_H
#define CERTS_JKS_H

#include "base/buf.h"
#include "base/fault.h"

/*
 * Append a store that trusts each certificate of the PEM text, with the usual password "changeit" for whoever wants it checked. False
 * when the text has no certificate, or one that cannot be read.
 */
bool jks_write(struct slice pem, struct buf *out, struct fault *why);

#endif
