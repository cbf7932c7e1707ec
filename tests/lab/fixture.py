"""One program in one setting, running in a network of its own, with the upstream it fetches from."""
import base64
import ctypes
import http.client
import importlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from upstream import Upstream
from world import PATIENCE, SERVICE, World

libcrypt = ctypes.PyDLL("libcrypt.so.1")  # its answer lies in one place for all threads: the interpreter stays locked
libcrypt.crypt.restype = ctypes.c_char_p

PROGRAMS = ["acng", "squid", "nginx", "verdaccio", "registry"]
STRANGERS = ["strangers"]
MODULES = PROGRAMS + STRANGERS + ["weak"]


def settings(modules=MODULES):
    """Every (module, setting) of the lab."""
    return [(m, s) for m in modules for s in importlib.import_module(m).SETTINGS]


def bcrypt(password, prefix="$2b$"):
    """As htpasswd -B writes it, with the fewest rounds: it guards nothing here."""
    made = libcrypt.crypt(password.encode(), b"$2b$04$" + base64.b64encode(os.urandom(24), b"./")[:21] + b"u")
    return made.decode().replace("$2b$", prefix)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class Answer:
    status: int  # 0: closed without a reply
    fields: list
    body: bytes

    def field(self, name):
        return next((v for k, v in self.fields if k.lower() == name.lower()), None)

    def json(self):
        return json.loads(self.body)


class Fixture:
    """
    with Fixture("squid", "hardened", directory) as f: f.ask("GET", "/x"). With leave=True the upstream's addresses are left to
    somebody else once the program runs.
    """

    def __init__(self, module, setting, directory, leave=False):
        self.module, self.setting = importlib.import_module(module), setting
        self.program = self.module.PROGRAM
        self.world = World(Path(directory))
        self.port, self.basic, self.basic2 = None, None, None
        try:
            self.upstream = Upstream(self.world)
            self.image = self.upstream.image
            self.module.start(self)
            if leave:
                self.upstream.close()
        except BaseException:
            self.world.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.world.close()

    def ask(self, method, target, body=None, port=None, source=None, **fields):
        """One request on a connection of its own, its target sent as it is; Host is the service's unless it is given."""
        return self.send(method, target, {k.replace("_", "-"): v for k, v in fields.items()}, body, port, source)

    def send(self, method, target, fields, body=None, port=None, source=None):
        port = port or self.port
        with self.world.connect(SERVICE, port, PATIENCE, source) as wire:
            c = http.client.HTTPConnection(SERVICE, port)
            c.sock = wire
            c.putrequest(method, target, skip_host="Host" in fields, skip_accept_encoding=True)
            body = body.encode() if isinstance(body, str) else body
            if body is not None or method in ("POST", "PUT", "PATCH"):
                c.putheader("Content-Length", str(len(body or b"")))
            # apt-cacher-ng says no length with a redirect, and without this field closes after 20 s.
            for k, v in {"Connection": "close", **fields}.items():
                c.putheader(k, v)
            try:
                c.endheaders(body or None)
                r = c.getresponse()
                return Answer(r.status, r.getheaders(), r.read() if method != "CONNECT" or r.status != 200 else b"")
            except (http.client.BadStatusLine, ConnectionError):
                return Answer(0, [], b"")
