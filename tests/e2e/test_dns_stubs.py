"""
The resolvers that programs have in them, of two C libraries, against a DNS listener: a name that is refused fails at once and not when the resolver
loses patience, and a search list does not stand in the way of a listed name. musl's waits on whatever is neither an answer nor NXDOMAIN.
"""
import subprocess

import pytest

from gateway import EXEAT, wait_until
from netns import Network
from test_dns import V4, gateway_with

SOURCE = r"""
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

int main(int n, char **names)
{
    for (int i = 1; i < n; i++) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
        char text[INET6_ADDRSTRLEN] = "";
        int status = getaddrinfo(names[i], "443", &hints, &found);

        if (status == 0 && found->ai_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, text, sizeof text);
        printf("%s %s\n", names[i], status == 0 ? text : status == EAI_NONAME ? "none" : gai_strerror(status));
    }
}
"""
COMPILERS = {"glibc": ["gcc"], "musl": ["musl-gcc", "-static"]}
PLAIN = {"npm.example": V4, "a.repo.example": V4, "elsewhere.example": "none", "a.npm.example": "none", "repo.example": "none",
         "a_b.npm.example": "none", "npm": "none", "npm.example.": V4}
SEARCHED = {**PLAIN, "npm": V4}
SETTINGS = {
    "no search list": ("", PLAIN),
    "a search list, and names with dots go through it first": ("search svc.cluster.local cluster.local example\noptions ndots:5\n", SEARCHED),
    "a search list": ("search corp.local example\n", SEARCHED),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stubs")
    (directory / "look.c").write_text(SOURCE)
    for name, words in COMPILERS.items():
        subprocess.run([*words, "-o", directory / name, directory / "look.c"], check=True)
    with Network("d") as net:
        host = net.host("h")
        zone = f'  steer: {{address: "127.0.0.53:53", answer: {V4}}}'
        g = gateway_with(directory / "state", zone + '\nresolver: {servers: ["127.0.0.1:5300"]}  # none: no service is asked here')
        g.start(host.command([EXEAT, "-c", g.config, "serve"]))
        yield host, directory, g
        assert g.stop() == 0


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("libc", COMPILERS)
def test_names_are_found_or_refused_at_once(place, libc, setting):
    host, directory, g = place
    text, expected = SETTINGS[setting]
    with open(f"{host.etc}/resolv.conf", "w") as f:
        f.write(f"{text}options timeout:60 attempts:1\nnameserver 127.0.0.53\n")
    said = host.run(directory / libc, *expected, check=True).stdout
    assert dict(line.split(" ", 1) for line in said.splitlines()) == expected
    assert wait_until(lambda: g.records(kind="question", reason="host_not_listed"), "records")
