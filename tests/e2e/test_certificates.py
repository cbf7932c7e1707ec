"""
The certificate of a service: its name and no other, of the CA that its configuration trusts, in its time and for its purpose
(RFC 9525, RFC 5280); or nothing of a request is sent.
"""
import datetime
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from conftest import BOTH
from gateway import Gateway, connect_head
from origin import Origin

NOW = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
DAY = datetime.timedelta(days=1)
# Row: the host that is asked for, what is in the certificate, and whether it proves that.
ROWS = {
    "its name": ("its.names.test", {"names": ["its.names.test"]}, True),
    "its name among others": ("among.names.test", {"names": ["other.test", "among.names.test"]}, True),
    "its name in capitals": ("capitals.names.test", {"names": ["CAPITALS.Names.Test"]}, True),
    "a wildcard for its label": ("wild.names.test", {"names": ["*.names.test"]}, True),
    "another name": ("another.names.test", {"names": ["other.test"]}, False),
    "the name above it": ("above.names.test", {"names": ["names.test"]}, False),
    "a name below it": ("below.names.test", {"names": ["a.below.names.test"]}, False),
    "a name that ends in it": ("ends.names.test", {"names": ["xends.names.test"]}, False),
    "a name that begins with it": ("begins.names.test", {"names": ["begins.names.test.evil.test"]}, False),
    "a wildcard two labels above": ("two.labels.names.test", {"names": ["*.names.test"]}, False),
    "a wildcard for part of its label": ("partial.names.test", {"names": ["part*.names.test"]}, False),
    "a wildcard that is not the first label": ("middle.names.test", {"names": ["middle.*.test"]}, False),
    "its name as subject alone": ("subject.names.test", {"subject": "subject.names.test"}, False),
    "its name as subject, beside another": ("beside.names.test", {"subject": "beside.names.test", "names": ["other.test"]}, False),
    "the address that is dialled": ("address.names.test", {"addresses": ["127.0.0.1"]}, False),
    "one whose time is over": ("over.names.test", {"names": ["over.names.test"], "from_": NOW - 3 * DAY, "to": NOW - DAY}, False),
    "one whose time is to come": ("to-come.names.test", {"names": ["to-come.names.test"], "from_": NOW + DAY, "to": NOW + 3 * DAY}, False),
    "one for clients": ("clients.names.test", {"names": ["clients.names.test"], "purpose": ExtendedKeyUsageOID.CLIENT_AUTH}, False),
    "one that it signed itself": ("itself.names.test", {"names": ["itself.names.test"], "own": True}, False),
    "one of another CA of the same name": ("stranger.names.test", {"names": ["stranger.names.test"], "stranger": True}, False),
    "one that a service's own certificate signed": ("leaf.names.test", {"names": ["leaf.names.test"], "by_leaf": True}, False),
}
SERVICE = """
  {name}:
    hosts: [{host}]
    addresses: ["127.0.0.1:{port}"]
    ca-file: {ca}
    allow: ["GET /**"]
    scope: registry:read
    audit: "waived: test"
"""


class Issuer:
    """Who signs: a key and a certificate."""

    def __init__(self, name="a CA for services", is_ca=True, by=None, **more):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (by or self).sign(self.name, self.key, is_ca=is_ca, **more)

    def sign(self, subject, key, names=(), addresses=(), is_ca=False, from_=NOW - DAY, to=NOW + DAY, purpose=None):
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(from_).not_valid_after(to)
                   .add_extension(x509.BasicConstraints(is_ca, None), True))
        places = [x509.DNSName(n) for n in names] + [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
        if places:
            builder = builder.add_extension(x509.SubjectAlternativeName(places), False)
        if purpose:
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), False)
        return builder.sign(self.key, hashes.SHA256())


def pem(certificate):
    return certificate.public_bytes(Encoding.PEM)


def write(directory, name, ca, leaf, subject="a service", own=False, stranger=False, by_leaf=False, **more):
    """(certificate, key) as files, for one row."""
    by = None if own else Issuer() if stranger else leaf if by_leaf else ca
    it = Issuer(subject, is_ca=False, by=by, **more)
    (directory / f"{name}.pem").write_bytes(pem(it.certificate) + (pem(leaf.certificate) if by_leaf else b""))
    (directory / f"{name}.key").write_bytes(it.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return directory / f"{name}.pem", directory / f"{name}.key"


@pytest.fixture(scope="module")
def proving(tmp_path_factory):
    """{row: origin}, each with its certificate; and the CA."""
    directory = tmp_path_factory.mktemp("certificates")
    ca = Issuer()
    leaf = Issuer("a service", is_ca=False, by=ca, names=["another-service.test"])
    (directory / "ca.pem").write_bytes(pem(ca.certificate))
    out = {row: Origin(*write(directory, host, ca, leaf, **more)) for row, (host, more, _) in ROWS.items()}
    yield out, directory / "ca.pem"
    for o in out.values():
        o.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, proving):
    out, ca = proving
    listed = "".join(SERVICE.format(name=f"s{i}", host=ROWS[row][0], port=o.port, ca=ca) for i, (row, o) in enumerate(out.items()))
    g = Gateway(tmp_path_factory.mktemp("gw") / "state", listed).start()
    yield g
    assert g.stop() == 0, g.output().decode()


@pytest.fixture(scope="module")
def token(gateway):
    return gateway.token(BOTH)


@pytest.mark.parametrize("row", ROWS)
def test_a_service_is_who_its_certificate_says(gateway, proving, token, row):
    host, _, is_it = ROWS[row]
    if is_it:
        wire = gateway.tunnel(host, token)
        wire.send(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert wire.response().status == 200
    else:
        wire = gateway.connect()
        wire.send(connect_head(host, token))
        answer = wire.response()
        assert (answer.status, answer.reason) == (502, "upstream_certificate")
        assert gateway.wait_for(kind="result", reason="upstream_certificate", id=gateway.records(kind="decision")[-1]["id"])
    wire.close()
    assert len(proving[0][row].requests) == is_it
