"""Real clients in the network of a fixture, each with a directory of its own: they publish to a service directly, and install from it through a proxy."""
import json
import os
import subprocess
from pathlib import Path

from world import PATIENCE, SERVICE


def run(world, *command, cwd=None, **environment):
    """The client alone, with nothing of this machine's own configuration. (status, what it said)"""
    home = Path(cwd or world.directory)
    words = ["env", "-i", f"PATH={os.environ['PATH']}:/usr/sbin", f"HOME={home}", *(f"{k}={v}" for k, v in environment.items()), *command]
    done = subprocess.run(world.enter(*words), pass_fds=[world.namespace], stdin=subprocess.DEVNULL, cwd=home, capture_output=True, text=True, timeout=2 * PATIENCE)
    return done.returncode, done.stdout + done.stderr


def must(answer):
    status, said = answer
    assert status == 0, said
    return said


# ---- apt


def apt(world, home, archive, proxy, *verb):
    """apt-get of one archive, "URL stable main"."""
    if not home.exists():
        for d in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d"):
            (home / d).mkdir(parents=True)
        (home / "sources.list").write_text(f"deb [trusted=yes arch=amd64] {archive} stable main\n")
        (home / "status").touch()
    options = {"Dir": home, "Dir::Etc": home / "etc", "Dir::Etc::SourceList": home / "sources.list", "Dir::State": home,
               "Dir::State::Lists": home / "lists", "Dir::State::status": home / "status", "Dir::Cache": home / "cache", "APT::Architecture": "amd64",
               "Acquire::http::Proxy": proxy, "Acquire::Languages": "none", "APT::Sandbox::User": "root", "Acquire::Retries": "0"}
    words = [w for k, v in options.items() for w in ("-o", f"{k}={v}")]
    return run(world, "apt-get", "-q", *words, *verb, APT_CONFIG="/dev/null")


# ---- npm


def npm(world, home, registry, proxy, *verb, login=None):
    home.mkdir(exist_ok=True)
    (home / ".npmrc").write_text(f"//{registry}/:_auth={login}\n" if login else "")
    return run(world, "npm", *verb, "--no-audit", "--no-fund", f"--registry=http://{registry}/", cwd=home, npm_config_globalconfig="/dev/null",
               npm_config_fetch_retries="0", npm_config_update_notifier="false", **({"npm_config_proxy": proxy, "npm_config_noproxy": ""} if proxy else {}))


def npm_publish(world, home, port, login, name="exeat-hello"):
    """Straight to the service, as its owner."""
    home.mkdir()
    (home / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0"}))
    (home / "index.js").write_text("module.exports = 'a word from the registry'\n")
    must(npm(world, home, f"{SERVICE}:{port}", None, "publish", login=login))


# ---- skopeo


def skopeo(world, home, proxy, *words):
    home.mkdir(exist_ok=True)
    return run(world, "skopeo", "--insecure-policy", *words, cwd=home, TMPDIR=home, **({"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy} if proxy else {}))


def skopeo_push(world, home, port, image, name="team/hello:1"):
    top = home / "image"
    top.mkdir()
    (top / "version").write_text("Directory Transport Version: 1.1\n")
    (top / "manifest.json").write_bytes(image.manifest)
    for digest, blob in ((image.config_digest, image.config), (image.layer_digest, image.layer)):
        (top / digest.split(":")[1]).write_bytes(blob)
    must(skopeo(world, home, None, "copy", "--dest-tls-verify=false", f"dir:{top}", f"docker://{SERVICE}:{port}/{name}"))
