"""Docker's engine on a host of the test's: its mounts, cgroups and settings are its own, and it runs nothing, it pulls and pushes."""
import shutil
import subprocess
import tempfile
from pathlib import Path

from gateway import PATIENCE, clean_environment, wait_until

# `ip netns exec` has given it a namespace of mounts; what it mounts there is seen by nobody else.
SCRIPT = """
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/devices
mount -t cgroup -o devices none /sys/fs/cgroup/devices 2>/dev/null || mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /etc/docker
mount -t tmpfs none /etc/docker
exec dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs --data-root {top}/data --exec-root {top}/run \
    --pidfile {top}/pid -H unix://{top}/sock
"""


class Engine:
    def __init__(self, host, **environment):
        self.top = top = Path(tempfile.mkdtemp(prefix="ex-"))  # short: containerd's socket is some way below it
        self.log, self.socket = open(top / "log", "ab+"), f"unix://{top}/sock"
        self.path = top / "log"
        self.process = host.popen("sh", "-c", SCRIPT.format(top=top), stdout=self.log, stderr=self.log,
                                  env=clean_environment(HOME=str(top), **environment))
        wait_until(lambda: b"API listen on" in self.path.read_bytes() or self.process.poll() is not None, "dockerd")
        assert self.process.poll() is None, self.path.read_text()[-4000:]

    def type(self, block, home, **more):
        """Where it runs; the command line keeps its logins in home."""
        words = ["nsenter", "-t", str(self.process.pid), "--mount", "--net", "sh", "-ec", f"cd {home}\n{block}"]
        return subprocess.run(words, env=clean_environment(HOME=str(home), DOCKER_HOST=self.socket, **more), text=True, capture_output=True,
                              timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()
        shutil.rmtree(self.top)
