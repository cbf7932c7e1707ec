/*
 * libcurl, looked for when an audit begins. After curl_begin() those functions of <curl/curl.h> may be called that transport.c uses.
 * The libraries that libcurl needs are in no other process of ours.
 */
#ifndef AUDIT_CURL_H
#define AUDIT_CURL_H

#include "base/fault.h"

/* false and *why when this machine has no libcurl. May be called again. */
bool curl_begin(struct fault *why);

#endif
