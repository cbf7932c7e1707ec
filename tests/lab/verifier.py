"""
A verifier of bearer tokens as it should be (RFC 9068, RFC 8725), and with any one of the mistakes that the audit looks for: is_weak(ID)
says which check it gets wrong.
"""
import base64
import hashlib
import hmac
import json
import time

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tokens import b64

LEEWAY, LIFETIME, LENGTH = 30, 3600, 8192
TYPES = {"jwt", "at+jwt", "application/at+jwt"}


class Denied(Exception):
    """Why a token is no good; status 400 when the request itself is off."""

    def __init__(self, why, status=401):
        super().__init__(why)
        self.status = status


def must(true, why):
    if not true:
        raise Denied(why)


def decode(part, strict=True):
    data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    must(not strict or b64(data) == part, "not the one spelling of its bytes")
    return data


def is_time(value):
    return isinstance(value, int) and not isinstance(value, bool)


def once(pairs):
    must(len(dict(pairs)) == len(pairs), "a name twice")
    return dict(pairs)


class Verifier:
    """keys: {(issuer, kid): public key}. The service is called `audience`."""

    def __init__(self, keys, audience, is_weak):
        self.keys, self.audience, self.is_weak = keys, audience, is_weak
        self.issuers = {issuer for issuer, _ in keys}
        self.revoked = set()  # jti of tokens

    def verify(self, token):
        """Its claims, or Denied."""
        if self.is_weak("TV-1") and "." not in token:
            return {"sub": "tenant-a", "scope": "read"}
        try:
            head, claims, mark = self.parts(token)
            self.check_header(head)
            self.check_signature(head, claims, mark, token.rpartition(".")[0].encode())
            self.check_claims(claims)
            return claims
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as e:
            raise Denied("not a token: " + type(e).__name__) from None

    def parts(self, token):
        must(self.is_weak("TV-13") or len(token) <= LENGTH, "too long")
        must(token.count(".") == 2, "not three parts")
        strict = not self.is_weak("TV-7")
        head, claims, mark = (decode(p, strict) for p in token.split("."))
        try:
            hook = {} if self.is_weak("TV-13") else {"object_pairs_hook": once}
            return json.loads(head, **hook), json.loads(claims, **hook), mark
        except RecursionError:
            if self.is_weak("TV-13"):
                raise
            raise Denied("too deep") from None

    def check_header(self, head):
        must(self.is_weak("TV-10") or "crit" not in head, "crit")
        must(self.is_weak("TV-11") or head.get("typ", "JWT").lower() in TYPES, "typ")
        allowed = {"jwk", "x5c"} if self.is_weak("TV-9") else set()
        must(not ({"jwk", "x5c", "jku", "x5u"} & head.keys()) - allowed, "a key of its own")

    def check_signature(self, head, claims, mark, signed):
        alg = head.get("alg")
        if self.is_weak("TV-5") and str(alg).lower() == "none" and not mark:
            return
        if alg == "HS256" and mark in (hmac.new(k, signed, hashlib.sha256).digest() for k in self.secrets()):
            return
        must(alg == "ES256", "alg")
        key = self.key(head, claims)
        if self.is_weak("TV-7") and len(mark) > 0:
            return
        must(len(mark) == 64, "signature")
        r, s = int.from_bytes(mark[:32], "big"), int.from_bytes(mark[32:], "big")
        try:
            key.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise Denied("signature") from None

    def secrets(self):
        """What a confused verifier takes for an HMAC key."""
        if self.is_weak("TV-17"):
            yield from (b"", b" ", b"\0", b" " * 32, b"\0" * 32, b" " * 64, b"\0" * 64)
        if self.is_weak("TV-6"):
            for key in self.keys.values():
                pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                yield from (pem, pem.strip(), key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def key(self, head, claims):
        if self.is_weak("TV-9"):
            if "x5c" in head:
                return x509.load_der_x509_certificate(base64.b64decode(head["x5c"][0])).public_key()
            if "jwk" in head:
                x, y = (int.from_bytes(decode(head["jwk"][k]), "big") for k in "xy")
                return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        kid, issuer = head.get("kid"), claims.get("iss")
        if self.is_weak("TV-8") and not str(kid).replace("-", "").replace(":", "").isalnum():
            raise RuntimeError("no such file: keys/" + str(kid))
        if self.is_weak("TV-12"):
            return next((k for (_, name), k in self.keys.items() if name == kid), None) or next(iter(self.keys.values()))
        must((issuer, kid) in self.keys, "kid")
        return self.keys[issuer, kid]

    def check_claims(self, claims):
        now = time.time()
        must(self.is_weak("TV-12") or claims["iss"] in self.issuers, "iss")
        self.check_audience(claims.get("aud"))
        self.check_times(claims, now)
        must(self.is_weak("TV-16") or claims.get("jti") not in self.revoked, "revoked")
        must(isinstance(claims["sub"], str) and isinstance(claims.get("scope", ""), str), "sub, scope")
        details = claims.get("authorization_details", [])
        must(self.is_weak("AS-8") or all(d["type"] == "weak-service" for d in details), "authorization_details")
        must(self.is_weak("RP-6") or "cnf" not in claims, "bound, and not proven")

    def check_audience(self, aud):
        if self.is_weak("AS-1"):
            must(isinstance(aud, str), "aud")
        elif isinstance(aud, list):
            must(self.audience in aud and (aud == [self.audience] or self.is_weak("AS-2")), "aud")
        elif aud is None:
            must(self.is_weak("AS-3"), "aud")
        else:
            must(aud == self.audience, "aud")

    def check_times(self, claims, now):
        exp, iat, nbf = claims.get("exp"), claims.get("iat", now), claims.get("nbf", now)
        if exp is None:
            must(self.is_weak("TV-4"), "exp")
            exp = int(now) + 60
        if self.is_weak("TV-13"):
            exp = float(exp)
            exp = exp if exp < 1e11 else now + 60
        else:
            must(is_time(exp) and (is_time(iat) or iat is now) and (is_time(nbf) or nbf is now), "times")
        must(now < exp + (600 if self.is_weak("TV-2") else LEEWAY), "expired")
        if not self.is_weak("TV-3"):
            must(iat <= now + LEEWAY and nbf <= now + LEEWAY, "not yet")
        if not self.is_weak("TV-15"):
            must(exp - min(iat, now) <= LIFETIME + LEEWAY, "for too long")
