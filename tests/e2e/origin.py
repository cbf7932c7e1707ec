"""A raw origin: records every byte it is sent and answers by script, over TLS or plain."""
import socket
import ssl
import struct
import subprocess
import threading
import time


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def make_pki(directory, names):
    """A test CA and one certificate for names; (ca.pem, cert.pem, key.pem) as paths."""
    ca, ca_key = directory / "origin-ca.pem", directory / "origin-ca.key"
    key, request, cert, ext = (directory / f"origin.{s}" for s in ("key", "csr", "pem", "ext"))
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", "/CN=origin test CA", "-keyout", ca_key, "-out", ca)
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=origin",
        "-keyout", key, "-out", request)
    ext.write_text("subjectAltName=" + ",".join("DNS:" + n for n in names) + "\n")
    run("openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2",
        "-extfile", ext, "-out", cert)
    return ca, cert, key


class Request:
    def __init__(self, head, body, complete, raw):
        self.head, self.body, self.complete, self.raw = head, body, complete, raw
        self.over = False  # the origin has read all of it that will come
        line = head.split(b"\r\n", 1)[0].split(b" ")
        self.method = line[0].decode("latin-1")
        self.target = line[1].decode("latin-1") if len(line) > 1 else ""

    def field(self, name):
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None


def stop_listening(listener, thread):
    """The thread that accepts ends first: on its way into accept it would take the connections of whoever gets the number next."""
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def ok(request):
    return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Origin:
    """
    Listens on a port of its own of 127.0.0.1, or of every address, or by a socket that is given. script(request) gives the raw response; None
    closes.
    """

    def __init__(self, cert=None, key=None, script=ok, everywhere=False, listener=None):
        self.script, self.requests, self.raw, self.connections = script, [], [], 0
        self.early = None  # bytes said at once after a head, whatever follows it; with Connection: close it closes then
        self.greeting = b""  # said before any request
        self.abrupt = False  # it goes without close_notify, and with a reset
        self.lock = threading.Lock()
        self.reading = threading.Event()  # cleared: bodies are left in the socket
        self.reading.set()
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(cert, key)
        if everywhere:
            self.socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            self.socket = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def close(self):
        stop_listening(self.socket, self.accepting)

    def clear(self):
        with self.lock:
            self.requests, self.raw = [], []

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with self.lock:
                self.connections += 1
            connection.sendall(self.greeting)
            reader = Reader(connection, self)
            while self.exchange(connection, reader):
                pass
        except OSError:
            pass
        finally:
            try:
                if self.abrupt:
                    time.sleep(0.02)  # a reset overtakes what is under way
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif isinstance(connection, ssl.SSLSocket):
                    connection.unwrap()
            except (OSError, ValueError):
                pass
            connection.close()

    def exchange(self, connection, reader):
        reader.seen, reader.at = reader.seen[reader.at:], 0
        head = reader.until(b"\r\n\r\n")
        if head is None:
            return False
        entry = Request(head, b"", False, head)
        with self.lock:
            self.requests.append(entry)
        if early := self.early:
            connection.sendall(early)
            while b"connection: close" not in early.lower() and reader.more():
                pass
            return False
        if b"expect: 100-continue" in head.lower():
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            entry.body = None
            entry.body = reader.body(head)
        finally:
            entry.complete, entry.raw, entry.over = entry.body is not None, reader.seen, True
        if not entry.complete:
            return False
        answer = self.script(entry)
        if answer is None:
            return False
        closes = False
        for piece in [answer] if isinstance(answer, bytes) else answer:
            closes = closes or b"connection: close" in piece[:1000].lower()
            connection.sendall(piece)
        return not closes


class Reader:
    def __init__(self, connection, origin):
        self.connection, self.origin, self.seen, self.at = connection, origin, b"", 0

    def more(self):
        data = self.connection.recv(65536)
        with self.origin.lock:
            self.origin.raw.append(data)
        self.seen += data
        return data

    def until(self, mark):
        while mark not in self.seen[self.at:]:
            if not self.more():
                return None
        end = self.seen.index(mark, self.at) + len(mark)
        piece, self.at = self.seen[self.at:end], end
        return piece

    def exactly(self, n):
        chunks, have = [self.seen[self.at:self.at + n]], min(n, len(self.seen) - self.at)
        self.at += have
        while have < n:
            self.origin.reading.wait(60)
            data = self.connection.recv(min(1 << 20, n - have))
            if not data:
                return None
            chunks.append(data)
            have += len(data)
        return b"".join(chunks)

    def body(self, head):
        fields = {k.strip().lower(): v.strip() for k, _, v in
                  (line.partition(b":") for line in head.split(b"\r\n")[1:])}
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = b""
            while True:
                line = self.until(b"\r\n")
                if line is None:
                    return None
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    while line not in (b"\r\n", None):
                        line = self.until(b"\r\n")
                    return body if line else None
                piece = self.exactly(size)
                if piece is None or self.until(b"\r\n") is None:
                    return None
                body += piece
        return self.exactly(int(fields.get(b"content-length", b"0")))
