"""What all contenders share: the programs, the certificates, the origin, and the load generator."""

import contextlib
import json
import os
import subprocess

import contender


class Bench:
    """The programs, the certificates and the origin."""

    def __init__(self, build, directory):
        self.build = os.path.abspath(build)
        self.directory = directory
        self.ca, self.cert, self.key = (os.path.join(directory, n) for n in ("ca.pem", "cert.pem", "key.pem"))
        self.ca_key = os.path.join(directory, "ca.key")
        self.make_certificates()
        self.origin = contender.Origin(self, directory)

    def program(self, name):
        return os.path.join(self.build, name)

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise contender.Failure(f"openssl {arguments[0]}: {done.stderr.strip()}")

    def make_certificates(self):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=bench")
        self.openssl("req", *key, "-keyout", "key.pem", "-out", "cert.csr", "-subj", f"/CN={contender.NAME}")
        with open(os.path.join(self.directory, "san"), "w", encoding="ascii") as f:
            f.write(f"subjectAltName=DNS:{contender.NAME}\n")
        self.openssl("x509", "-req", "-in", "cert.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                     "-days", "2", "-extfile", "san", "-out", "cert.pem")


class Load:
    """A load generator whose connections are open, and that makes as many requests as it is told."""

    def __init__(self, bench, server, options, part=0):
        self.server, self.options = server, options
        self.child = subprocess.Popen([bench.program("bench/load"), *server.load(part), *options, "--steps"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.opened = self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line or json.loads(line)["failures"]:
            _, err = self.child.communicate()
            err = err.strip()
            raise contender.Failure(f"{self.server.name}: {' '.join(self.options)}: {err or line.strip()}")
        return json.loads(line)

    def run(self, requests):
        self.child.stdin.write(f"{requests}\n")
        self.child.stdin.flush()
        return self.answer()

    def close(self):
        if self.child.returncode is None:
            self.child.communicate()


@contextlib.contextmanager
def opened(bench, server, options, part=0):
    generator = Load(bench, server, options, part)
    try:
        yield generator
    finally:
        generator.close()
