"""
The weak service's token endpoint: OAuth for one client (RFC 6749), refresh tokens that are used once, exchange (RFC 8693), resources
(RFC 8707), revocation (RFC 7009). Right in everything, or wrong where is_weak(ID) says so.
"""
import base64
import json
import secrets
import threading
import time
from urllib.parse import parse_qs

from upstream import reply
from verifier import Denied

CLIENT, CLIENT_SECRET = "auditor", "client-secret-0123456789"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
SCOPES = {"read"}  # what the client may have
LIFE = 300


class Refused(Exception):
    def __init__(self, error, status="400 Bad Request"):
        super().__init__(error)
        self.error, self.status = error, status


def must(true, error, status="400 Bad Request"):
    if not true:
        raise Refused(error, status)


def answer(status, value, **fields):
    return reply(status, json.dumps(value), Content_Type="application/json", Cache_Control="no-store", **fields)


class Tokens:
    """resources: what this service is called in `resource`."""

    def __init__(self, issuer, verifier, audience, resources, is_weak):
        self.issuer, self.verifier, self.audience, self.resources, self.is_weak = issuer, verifier, audience, resources, is_weak
        self.refresh, self.used, self.lock = {}, set(), threading.Lock()

    def is_client(self, r):
        return r.field("authorization") == "Basic " + base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()

    def answer(self, r):
        """The answer to POST /token."""
        form = {k: v[0] for k, v in parse_qs(r.body.decode("latin-1")).items()}
        try:
            must(self.is_client(r) or self.is_weak("TV-18") and form.get("grant_type") == "refresh_token", "invalid_client", "401 Unauthorized")
            must(self.is_weak("AS-4") or form.get("resource") in (None, *self.resources), "invalid_target")
            must(form.get("audience") in (None, self.audience) or self.is_weak("DE-1"), "invalid_target")
            grant = {"client_credentials": self.client, "refresh_token": self.renew, EXCHANGE: self.exchange}.get(form.get("grant_type"))
            must(grant, "unsupported_grant_type")
            return answer("200 OK", grant(form))
        except Refused as e:
            challenge = {"WWW_Authenticate": 'Basic realm="token"'} if e.status.startswith("401") else {}
            return answer(e.status, {"error": e.error}, **challenge)

    def scope(self, form, most):
        scope = set(form["scope"].split()) if form.get("scope") else set(most)
        must(scope <= set(most), "invalid_scope")
        return " ".join(sorted(scope))

    def issue(self, claims, renews=False, life=LIFE):
        claims = {"aud": self.audience, "jti": secrets.token_hex(8), "exp": int(time.time()) + life, **claims}
        made = {"access_token": self.issuer.token(access=None, **claims), "token_type": "Bearer", "expires_in": claims["exp"] - int(time.time()),
                "scope": claims["scope"]}
        if renews:
            made["refresh_token"] = secrets.token_urlsafe(24)
            self.refresh[made["refresh_token"]] = {k: claims[k] for k in ("sub", "scope")}
        return made

    def client(self, form):
        with self.lock:
            return self.issue({"sub": "tenant-a", "scope": self.scope(form, SCOPES)}, renews=True)

    def renew(self, form):
        """A refresh token is good once; one that comes again ends all that followed from it."""
        with self.lock:
            token = form.get("refresh_token", "")
            if token in self.used and not self.is_weak("TV-18"):
                self.refresh.clear()
            kept = self.refresh.get(token)
            must(kept, "invalid_grant")
            most = {"read", "write", "admin"} if self.is_weak("TV-18") else kept["scope"].split()
            scope = self.scope(form, most)
            self.used.add(token)
            if not self.is_weak("TV-18"):
                del self.refresh[token]
            return self.issue({**kept, "scope": scope}, renews=True)

    def exchange(self, form):
        try:
            subject = self.verifier.verify(form["subject_token"])
            actor = self.verifier.verify(form["actor_token"]) if "actor_token" in form else {"sub": CLIENT}
        except (Denied, KeyError):
            raise Refused("invalid_request") from None
        may_act = subject.get("may_act", {}).get("sub")
        must(may_act in (None, actor["sub"]) or self.is_weak("DE-3"), "invalid_request")
        scope = form.get("scope", "") if self.is_weak("DE-1") else self.scope(form, subject.get("scope", "").split())
        act = {"sub": actor["sub"], **({"act": subject["act"]} if "act" in subject else {})}
        claims = {"sub": subject["sub"], "scope": scope, "exp": min(subject["exp"], int(time.time()) + LIFE)}
        if form.get("audience"):
            claims["aud"] = form["audience"]
        if not self.is_weak("DE-2"):
            claims["act"] = act
        if self.is_weak("DE-4"):
            claims["exp"] = int(time.time()) + 3000
        return self.issue(claims)

    def revoke(self, r):
        """The answer to POST /revoke: the same whether there was such a token."""
        if not self.is_client(r):
            return answer("401 Unauthorized", {"error": "invalid_client"}, WWW_Authenticate='Basic realm="token"')
        token = parse_qs(r.body.decode("latin-1")).get("token", [""])[0]
        self.refresh.pop(token, None)
        try:
            self.verifier.revoked.add(self.verifier.verify(token)["jti"])
        except (Denied, KeyError):
            pass
        return reply("200 OK")
