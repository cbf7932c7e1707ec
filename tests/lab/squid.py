"""Squid with everything allowed, as the upstream's example has it, and hardened."""
import os
import shutil

PROGRAM = "squid 5.7"
PORT = 3128
USER, PASSWORD = "sandbox-a", "pass-a-0123456789"
USER2, PASSWORD2 = "sandbox-b", "pass-b-0123456789"

COMMON = """\
http_port 127.0.0.1:{port}
pid_filename none
cache_effective_user proxy
cache_effective_group proxy
cache_mem 16 MB
coredump_dir {directory}
access_log stdio:{directory}/access.log
cache_log {directory}/cache.log
visible_hostname squid.test
dns_nameservers 127.0.0.53
hosts_file {directory}/hosts
shutdown_lifetime 0 seconds
connect_timeout 3 seconds
pinger_enable off
netdb_filename none
"""

HARDENED = """\
auth_param basic program /usr/lib/squid/basic_ncsa_auth {directory}/passwd
auth_param basic realm squid
acl authd proxy_auth REQUIRED
acl okdst dstdomain -n upstream.test
acl priv dst 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 127.0.0.0/8 169.254.0.0/16 ::1 fe80::/10 fc00::/7
acl upip dst 127.0.0.20
acl rd method GET HEAD
acl Safe_ports port 80 443
acl SSL_ports port 443
acl private_ask req_header Authorization .
acl session_ask req_header Cookie .
http_access deny manager
http_access deny !Safe_ports
http_access deny CONNECT !SSL_ports
http_access deny priv !upip
http_access deny !rd !CONNECT
http_access deny !authd
http_access allow authd okdst
http_access deny all
cache deny private_ask
cache deny session_ask
email_err_data off
forwarded_for delete
via off
icp_port 0
htcp_port 0
"""

SETTINGS = {
    "allow-all": "http_access allow all\n",
    "example": """\
acl localnet src 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 127.0.0.0/8
acl Safe_ports port 80 21 443 1025-65535
acl SSL_ports port 443
http_access deny !Safe_ports
http_access deny CONNECT !SSL_ports
http_access allow localhost manager
http_access deny manager
http_access allow localnet
http_access deny all
""",
    "hardened": HARDENED,
}


def start(fixture):
    from fixture import bcrypt

    world, directory = fixture.world, fixture.world.directory
    world.resolver()
    text = COMMON + SETTINGS[fixture.setting]
    (directory / "squid.conf").write_text(text.format(directory=directory, port=PORT))
    (directory / "passwd").write_text("".join(f"{u}:{bcrypt(p)}\n" for u, p in ((USER, PASSWORD), (USER2, PASSWORD2))))
    shutil.chown(directory, "proxy")
    os.chmod(directory, 0o755)
    world.run("squid", shutil.which("squid", path=os.environ.get("PATH", "") + ":/usr/sbin"), "-N", "-f", directory / "squid.conf")
    world.ready(PORT)
    fixture.port = PORT
    if fixture.setting == "hardened":
        fixture.basic = (USER, PASSWORD)
        fixture.basic2 = (USER2, PASSWORD2)
