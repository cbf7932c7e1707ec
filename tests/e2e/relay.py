"""exeat-relay as a process of its own, and a gateway that does what a test tells it."""
import os
import socket
import subprocess
import threading

from gateway import EXEAT, PATIENCE, Wire, clean_environment, wait_until

RELAY = EXEAT.parent / "exeat-relay"


class Relay:
    def __init__(self, directory, to, *words, listen="127.0.0.1:0", namespace=None, **more):
        self.log = directory / "relay.log"
        with open(self.log, "wb") as out:
            command = [str(w) for w in (RELAY, "--to", to, "--listen", listen, *words)]
            self.process = subprocess.Popen(namespace.command(command) if namespace else command, stderr=out, stdout=out,
                                            stdin=subprocess.DEVNULL, env=clean_environment(), **more)
        wait_until(lambda: "ready" in self.said() or self.process.poll() is not None, "the relay")
        assert self.process.poll() is None, self.said()
        self.at = self.said().split("ready ", 1)[1].split()[0]

    def said(self):
        return self.log.read_text()

    @property
    def port(self):
        return int(self.at.rsplit(":", 1)[1])

    def connect(self):
        if self.at.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(PATIENCE)
            s.connect(self.at[5:])
        else:
            s = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return Wire(s)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Resident bytes."""
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * 4096

    def stop(self):
        self.process.terminate()
        status = self.process.wait(PATIENCE)
        assert status == 0, (status, self.said())
        for mark in ("Sanitizer", "runtime error"):
            assert mark not in self.said(), self.said()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None and error[0]:
            self.process.kill()
            self.process.wait()
        elif self.process.poll() is None:
            self.stop()


class Far:
    """The far side: accepts, and hands each connection to the test."""

    def __init__(self, address=("127.0.0.1", 0), family=socket.AF_INET):
        self.socket = socket.socket(family)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(address)
        self.socket.listen(2048)
        self.socket.settimeout(PATIENCE)

    @property
    def port(self):
        return self.socket.getsockname()[1]

    @property
    def to(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        s, _ = self.socket.accept()
        s.settimeout(PATIENCE)
        return Wire(s)

    def close(self):
        self.socket.close()

    def echo(self):
        """Everything that comes back as it came, on every connection."""
        def serve(s):
            with s:
                while data := s.recv(65536):
                    s.sendall(data)
                s.shutdown(socket.SHUT_WR)

        def loop():
            while True:
                try:
                    s, _ = self.socket.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(s,), daemon=True).start()

        self.socket.settimeout(None)
        threading.Thread(target=loop, daemon=True).start()
        return self
