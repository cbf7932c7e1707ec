#include "net/meter.h"

#include <linux/tcp.h>
#include <string.h>

/* States in which the peer's FIN has arrived, which the kernel counts as a byte. */
enum { CLOSE_WAIT = 8, LAST_ACK = 9, CLOSING = 11 };

static bool has_fin(unsigned state)
{
    return state == CLOSE_WAIT || state == LAST_ACK || state == CLOSING;
}

bool meter_read(int fd, struct meter *out)
{
    struct sockaddr_storage local;
    struct tcp_info info;
    socklen_t len = sizeof info, local_len = sizeof local;

    memset(&info, 0, sizeof info);
    *out = (struct meter){0};
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || len < offsetof(struct tcp_info, tcpi_dsack_dups))
        return false;
    if (getsockname(fd, (struct sockaddr *)&local, &local_len) == 0)
        addr_from_sockaddr(&out->local, (struct sockaddr *)&local);
    out->resent = info.tcpi_bytes_retrans;
    out->sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    out->unsent = info.tcpi_notsent_bytes;
    out->received = info.tcpi_bytes_received - (has_fin(info.tcpi_state) && info.tcpi_bytes_received > 0);
    return true;
}
