"""An issuer of tokens for docker-registry: a key, its certificate, and tokens good and bad."""
import base64
import datetime
import hashlib
import hmac
import json
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

ISSUER, SERVICE = "issuer.test", "registry.test"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value):
    return b64(json.dumps(value).encode())


class Key:
    def __init__(self):
        self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def public_der(self):
        return self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    @property
    def pem(self):
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def kid(self):
        """libtrust's: groups of four of the Base32 of the first 240 bits of the SHA-256 of the public key."""
        text = base64.b32encode(hashlib.sha256(self.public_der).digest()[:30]).decode()
        return ":".join(text[i:i + 4] for i in range(0, len(text), 4))

    @property
    def jwk(self):
        n = self.private.public_key().public_numbers()
        return {"kty": "EC", "crv": "P-256", "x": b64(n.x.to_bytes(32, "big")), "y": b64(n.y.to_bytes(32, "big")), "kid": self.kid}

    def certificate(self, name="issuer"):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.datetime.utcnow()
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(self.private.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        return made.not_valid_after(now + datetime.timedelta(days=30)).sign(self.private, hashes.SHA256())

    def sign(self, data):
        r, s = utils.decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def jwt(key, claims, header):
    """A token signed with key: a Key, bytes for HS256, or None for an empty signature."""
    signed = part(header) + "." + part(claims)
    if key is None:
        return signed + "."
    if isinstance(key, bytes):
        return signed + "." + b64(hmac.new(key, signed.encode(), hashlib.sha256).digest())
    return signed + "." + b64(key.sign(signed.encode()))


class Issuer:
    def __init__(self, directory):
        self.key = Key()
        self.certificate = self.key.certificate()
        self.pem = directory / "issuer.pem"
        self.pem.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        self.key_file = directory / "issuer.key"
        self.key_file.touch(0o600)
        self.key_file.write_text(self.key.pem)

    @staticmethod
    def now():
        return int(time.time())

    def claims(self, access=(("t/a", ["pull"]),), **changes):
        now = self.now()
        claims = {"iss": ISSUER, "sub": "tenant-a", "aud": SERVICE, "exp": now + 300, "nbf": now - 10, "iat": now - 10,
                  "jti": f"{time.monotonic_ns():x}",
                  "access": access and [{"type": "repository", "name": n, "actions": a} for n, a in access]}
        return {k: v for k, v in (claims | changes).items() if v is not None}

    def header(self, **changes):
        return {k: v for k, v in ({"typ": "JWT", "alg": "ES256", "kid": self.key.kid} | changes).items() if v is not None}

    def token(self, key=0, header=None, access=(("t/a", ["pull"]),), **changes):
        return jwt(self.key if key == 0 else key, self.claims(access, **changes), self.header(**(header or {})))
