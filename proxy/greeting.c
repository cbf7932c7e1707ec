#include "proxy/greeting.h"

#include <stdio.h>

#include "base/say.h"
#include "base/text.h"
#include "proxy/terms.h"

bool greeting_begin(struct session *s)
{
    struct tls_door *door = terms_door(s->worker->terms, s->listener);
    struct fault why = {0};
    SSL *ssl;

    if (!door)
        return false;
    if ((ssl = tls_door_accept(door, &why)))
        stream_start_tls(s->client, ssl);
    else
        say_warning("%s", why.text); /* the session waits in vain, until its deadline */
    return true;
}

void greeting_note(struct session *s)
{
    unsigned char digest[32];
    struct buf text = {0};

    if (!stream_peer_digest(s->client, digest))
        return;
    text_base64url(&text, slice_make(digest, sizeof digest));
    snprintf(s->certificate, sizeof s->certificate, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_free(&text);
}
