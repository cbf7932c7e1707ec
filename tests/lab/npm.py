"""Packages of npm that the lab needs: each set is installed once, by the ordinary npm client, into the build directory."""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("LAB_CACHE", Path(__file__).resolve().parents[2] / "build" / "lab"))


def installed(name, dependencies, overrides=None):
    """The directory that has them below node_modules; the first to come installs them, the others wait."""
    manifest = json.dumps({"private": True, "dependencies": dependencies, "overrides": overrides or {}})
    home = CACHE / f"{name}-{hashlib.sha256(manifest.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            fresh = home.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            (fresh / "package.json").write_text(manifest)
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], cwd=fresh,
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"npm could not install {name}:\n{done.stderr[-2000:]}"
            fresh.rename(home)
    return home
