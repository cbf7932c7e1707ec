"""apt-cacher-ng as Debian ships it, as two popular recipes open it, and hardened."""
PROGRAM = "apt-cacher-ng 3.7.4"
PORT = 3142

# The client-side prefix is needed: without it the name is taken for a host.
COMMON = """\
CacheDir: {directory}/cache
LogDir: {directory}/log
SupportDir: /usr/lib/apt-cacher-ng
SocketPath:
BindAddress: 127.0.0.1
Port: {port}
ForeGround: 1
Remap-fx: http://upstream.test /fxrep ; http://upstream.test
"""

SETTINGS = {
    "debian-default": "ReportPage: acng-report.html\nExThreshold: 4\n",
    "pass-through": "ReportPage: acng-report.html\nExThreshold: 4\nPassThroughPattern: .*\nAllowUserPorts: 0\n",
    "hardened": "ForceManaged: 1\nRedirMax: 0\nPassThroughPattern: ^$\nAllowUserPorts: 80\nForwardBtsSoap: 0\nReportPage:\n",
}


def start(fixture):
    world, directory = fixture.world, fixture.world.directory
    conf = directory / "conf"
    for d in (conf, directory / "cache", directory / "log"):
        d.mkdir(exist_ok=True)
    (conf / "acng.conf").write_text(COMMON.format(directory=directory, port=PORT) + SETTINGS[fixture.setting])
    if fixture.setting == "hardened":
        (conf / "security.conf").write_text("AdminAuth: admin:not-guessed-0123\n")
    fixture.process = world.run("apt-cacher-ng", "/usr/sbin/apt-cacher-ng", "-c", conf)
    world.ready(PORT)
    fixture.port = PORT
