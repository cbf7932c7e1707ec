/* sd_notify(3): tells a service manager how far we are, when $NOTIFY_SOCKET says that one listens. */
#ifndef PROXY_NOTIFY_H
#define PROXY_NOTIFY_H

void notify_ready(void);
/* With MONOTONIC_USEC, as Type=notify-reload wants it; notify_ready follows, however it ends. */
void notify_reloading(void);
void notify_stopping(void);

#endif
