"""Certificates of services behind TLS, good and bad."""
import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def name(text):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def alternative(text):
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class Authority:
    count = 0  # each has a name of its own: one is not taken for another

    def __init__(self):
        Authority.count += 1
        self.name = name(f"CA {Authority.count} of the lab")
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.sign(self.key.public_key(), None, [], ca=True)

    def sign(self, key, subject, names, days=30, ca=False):
        now = datetime.datetime.utcnow()
        made = x509.CertificateBuilder().subject_name(name(subject) if subject else self.name).issuer_name(self.name).public_key(key).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(days=60)).not_valid_after(now + datetime.timedelta(days=days))
        made = made.add_extension(x509.BasicConstraints(ca, None), critical=True)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName([alternative(n) for n in names]), critical=False)
        return made.sign(self.key, hashes.SHA256())

    def write(self, path):
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def server(self, directory, names, days=30):
        """server.pem and server.key in the directory."""
        key = ec.generate_private_key(ec.SECP256R1())
        (directory / "server.pem").write_bytes(self.sign(key.public_key(), names[0], names, days).public_bytes(Encoding.PEM))
        (directory / "server.key").touch(0o600)
        (directory / "server.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
