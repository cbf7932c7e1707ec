/*
 * The helper programs' words, in one place: what their --help prints and what their manual pages are made of
 * (`exeat man`). No function; rows are OPTION(name, value or NULL, help).
 */
#ifndef SANDBOX_HELPER_H
#define SANDBOX_HELPER_H

#define RELAY_SUMMARY "carry a sandbox's connections to the gateway"
#define RELAY_USAGE "--to ADDRESS [options]"
#define RELAY_OPTIONS(OPTION) \
    OPTION("to", "ADDRESS", "where the gateway is") \
    OPTION("listen", "ADDRESS", "where clients connect to (127.0.0.1:3128)") \
    OPTION("stdio", NULL, "one client, on standard input and output, instead of listening") \
    OPTION("token-file", "FILE", "add the leave token in FILE to requests that have none") \
    OPTION("connections", "N", "how many clients at once (1000); more wait") \
    OPTION("help", NULL, "this text") \
    OPTION("version", NULL, "the version")
#define RELAY_HELP \
    "An ADDRESS is 127.0.0.1:3128, [::1]:3128, unix:FILE or, to connect to, vsock:CID:PORT. Names are not looked up.\n" \
    "\n" \
    "Runs inside the sandbox until SIGTERM. Bytes pass as they are, both ways; an end is passed on as an end, a cut as a cut.\n" \
    "\n" \
    "With --token-file, a Proxy-Authorization field is added to each CONNECT and each request in absolute form that has " \
    "none, for clients that cannot carry a token, or whose runs are longer than its life. The file is read again when it has " \
    "changed: exeat token renew keeps it fresh. It then listens only where nobody but this machine can reach it. " \
    "Where requests cannot be told apart beyond doubt it answers 400 or cuts, and never adds a token inside a tunnel.\n" \
    "\n" \
    "Its own answers, before the gateway has said anything: 400, 408, 431, 502 (no gateway there), 503 (no token in the file); " \
    "each says why in its status line and names exeat-relay.\n"
#define RELAY_EXAMPLES \
    "  exeat-relay --to vsock:2:3128\n" \
    "  exeat-relay --to 10.0.0.1:3128 --token-file /run/exeat/token.jwt\n" \
    "  exeat-relay --listen unix:/run/exeat/proxy.sock --to unix:/run/host/vm1.sock\n"

#define CREDENTIAL_SUMMARY "hand git and apt the leave token that is in a file now"
#define CREDENTIAL_USAGE "[options] get|store|erase|URL"
#define CREDENTIAL_OPTIONS(OPTION) \
    OPTION("token-file", "FILE", "the leave token; else $EXEAT_TOKEN_FILE") \
    OPTION("gateway", "HOST:PORT", "whose proxy address it is for; else $EXEAT_GATEWAY") \
    OPTION("help", NULL, "this text") \
    OPTION("version", NULL, "the version")
#define CREDENTIAL_HELP \
    "The token is read each time it is asked for, so that a run begins with a fresh one: exeat token renew keeps the file so.\n" \
    "\n" \
    "get, store and erase: git asks, as it asks every credential helper. It is answered for http://HOST:PORT alone, which is the " \
    "gateway; for anybody else nothing is said. What git wants stored or erased is ignored. git must know the proxy by a name " \
    "without a password: http.proxy=http://jwt@HOST:PORT.\n" \
    "\n" \
    "A URL: apt asks which proxy leads there (Acquire::http::Proxy-Auto-Detect, which takes no options: set the variables, or " \
    "name a script). The answer is http://jwt:TOKEN@HOST:PORT/. apt asks as the user _apt, who must be able to read the file.\n"
#define CREDENTIAL_EXAMPLES \
    "  git config --global http.proxy http://jwt@127.0.0.1:3128\n" \
    "  git config --global credential.http://127.0.0.1:3128.helper \\\n" \
    "      '/usr/local/bin/exeat-credential --gateway 127.0.0.1:3128 --token-file /run/exeat/token.jwt'\n" \
    "  EXEAT_GATEWAY=127.0.0.1:3128 EXEAT_TOKEN_FILE=/run/exeat/token.jwt exeat-credential https://deb.example/\n"

#endif
