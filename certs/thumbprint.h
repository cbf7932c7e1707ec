/* How a token names the certificate it is bound to: x5t#S256 (RFC 8705 3.1). */
#ifndef CERTS_THUMBPRINT_H
#define CERTS_THUMBPRINT_H

#include "base/buf.h"
#include "base/fault.h"

/* Append the SHA-256 (base64url) of the first certificate in pem, as DER. False: there is none. */
bool thumbprint_of(struct slice pem, struct buf *out, struct fault *why);

#endif
