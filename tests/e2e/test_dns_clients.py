"""
Programs that know no proxy, in a network namespace whose only name server is a DNS listener on port 53: what they find, and what they do not.
As root.
"""
import subprocess
import sys
import time
import zipfile

import pytest

from gateway import EXEAT, Gateway, clean_environment, wait_until
from netns import Network
from test_dns import limits

V4, V6, CLIENT = "10.53.0.1", "fd53::1", "10.53.0.2"
SERVICES = """
  web:
    hosts: [web.example, "*.web.example"]
    plain-ports: [80]
    allow: ["GET /**"]
    scope: s
    audit: "waived: test"
"""


def write_index(directory):
    """What pip installs from: one wheel."""
    (directory / "simple" / "thing").mkdir(parents=True)
    with zipfile.ZipFile(directory / "simple" / "thing" / "thing-1.0-py3-none-any.whl", "w") as z:
        z.writestr("thing.py", "ANSWER = 42\n")
        z.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        z.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("thing-1.0.dist-info/RECORD", "")
    (directory / "index.html").write_text("it is here\n")


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """A client and a gateway on a link; behind the steering addresses a plain web server stands for a transparent listener."""
    directory = tmp_path_factory.mktemp("clients")
    write_index(directory)
    with Network("dns") as net:
        here, client = net.host("gw"), net.host("client")
        net.link(here, [f"{V4}/24", f"{V6}/64", "10.53.0.99/24"], client, [f"{CLIENT}/24", "fd53::2/64"])
        g = Gateway(directory / "state", SERVICES, extra=f"""
dns:
  v4: {{address: "{V4}:53", answer: [{V4}, "{V6}"]}}
  v6: {{address: "[{V6}]:53", answer: {V4}}}
{limits()}""")
        g.start(command=here.command([EXEAT, "-c", g.config, "serve"]))
        servers = [here.popen(sys.executable, "-m", "http.server", "80", "--bind", a, "--directory", directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for a in (V4, V6)]
        wait_until(lambda: here.run("curl", "-s", f"http://{V4}/").stdout == "it is here\n", "the web server")
        wait_until(lambda: here.run("curl", "-s", "-g", f"http://[{V6}]/").stdout == "it is here\n", "the other one")
        client.gateway, client.here = g, here
        yield client
        for s in servers:
            s.kill()
            s.wait()
        assert g.stop() == 0
        print(g.output().decode()[-4000:])


def use(client, server=V4, more=""):
    client.resolve(servers=[server])
    with open(f"{client.etc}/resolv.conf", "a") as f:
        f.write(more + "\n")


def names_asked(client, since):
    return [r["dns"]["name"] for r in client.gateway.records(kind="question")[since:]]


WAYS = {"IPv4": (V4, ""), "IPv6": (V6, ""), "TCP": (V4, "options use-vc"), "EDNS": (V4, "options edns0"), "one after the other": (V4, "options single-request"),
        "a search list": (V4, "search corp.local other.local"), "a search list first": (V4, "search corp.local\noptions ndots:5")}


@pytest.mark.parametrize("server, more", WAYS.values(), ids=WAYS)
def test_curl_finds_what_is_listed_and_nothing_else(street, server, more):
    use(street, server, more)
    assert street.run("curl", "-s", "http://web.example/").stdout == "it is here\n"
    assert street.run("curl", "-s", "http://a.web.example/").stdout == "it is here\n"
    refused = street.run("curl", "-sS", "http://elsewhere.example/")
    assert refused.returncode == 6 and "resolve host: elsewhere.example" in refused.stderr
    records = street.gateway.records(kind="question")
    assert {r["client"].rsplit(":", 1)[0] for r in records} <= {CLIENT, "[fd53::2]"}
    assert any(r["dns"]["transport"] == ("tcp" if "use-vc" in more else "udp") for r in records)


def test_a_refusal_is_quick(street):
    """A name with a search domain is no reason to wait for."""
    use(street, V4, "search corp.local other.local third.local\noptions ndots:5")
    began, since = time.monotonic(), len(street.gateway.records(kind="question"))
    assert street.run("getent", "hosts", "elsewhere.example").returncode == 2
    assert time.monotonic() - began < 4  # a resolver that hears nothing waits for 5 s
    assert "elsewhere.example.corp.local" in names_asked(street, since)


def test_the_addresses_of_both_families_are_there(street):
    use(street)
    found = street.run("getent", "ahosts", "web.example").stdout
    assert V4 in found and V6 in found
    use(street, V6)
    found = street.run("getent", "ahosts", "web.example").stdout
    assert V4 in found and V6 not in found


def test_pip_installs_from_an_index_by_its_name(street, tmp_path):
    use(street)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    done = street.run(tmp_path / "venv/bin/pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--trusted-host", "web.example", "--index-url",
                      "http://web.example/simple/", "thing", env=clean_environment(HOME=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert street.run(tmp_path / "venv/bin/python", "-c", "import thing; print(thing.ANSWER)").stdout == "42\n"


@pytest.mark.parametrize("words", [["@" + V4], ["@" + V4, "+tcp"], ["@" + V6], ["@" + V6, "+tcp"]], ids=lambda w: " ".join(w))
def test_dig_hears_from_whom_it_asked(street, words):
    said = street.run("dig", *words, "web.example", "A").stdout
    assert "status: NOERROR" in said and V4 in said and "expected" not in said


def test_another_address_of_the_gateway_answers_nothing(street):
    said = street.run("dig", "@10.53.0.99", "+tries=1", "+time=2", "web.example", "A")
    assert said.returncode == 9 and "web.example.\t" not in said.stdout.replace(";web.example.", "")
