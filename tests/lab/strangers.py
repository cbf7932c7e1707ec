"""
Programs that the audit was not written against, each in a setting that once brought a miss or a false alarm: lighttpd's WebDAV, an open
Apache and tinyproxy, Varnish, json-server, and git behind a web server.
"""
import json
import os
import shutil
import subprocess

import certificates
from npm import installed

PROGRAM = "strangers"
PORT = 8095
USER, PASSWORD = "a", "pass-a-0123456789"
USER2, PASSWORD2 = "b", "pass-b-0123456789"
JSON_SERVER = {"json-server": "0.17.4"}

LIGHTTPD = """\
server.document-root="{directory}/root"
server.bind="127.0.0.1"
server.port={port}
"""
DAV = """\
server.modules=("mod_webdav", "mod_status")
dir-listing.activate="enable"
status.status-url="/server-status"
$HTTP["url"] =~ "^/dav" {{ webdav.activate="enable" }}
"""
READ_ONLY = """\
server.modules=("mod_auth", "mod_authn_file", "mod_webdav")
auth.backend="plain"
auth.backend.plain.userfile="{directory}/logins"
auth.require=("/" => ("method" => "basic", "realm" => "x", "require" => "valid-user"))
$HTTP["url"] =~ "^/dav" {{ webdav.activate="enable" webdav.is-readonly="enable" }}
"""
GIT = """\
server.modules=("mod_alias", "mod_cgi", "mod_setenv")
alias.url=("/git" => "/usr/lib/git-core/git-http-backend")
$HTTP["url"] =~ "^/git" {{
    cgi.assign=("" => "")
    setenv.add-environment=("GIT_PROJECT_ROOT" => "{directory}/root", "GIT_HTTP_EXPORT_ALL" => "1", "GIT_CONFIG_COUNT" => "1",
                            "GIT_CONFIG_KEY_0" => "safe.directory", "GIT_CONFIG_VALUE_0" => "*")
}}
"""
APACHE = """\
ServerName apache.test
ServerRoot {directory}
Listen 127.0.0.1:{port}
PidFile {directory}/pid
ErrorLog {directory}/error.log
{modules}
DocumentRoot {directory}/root
ProxyRequests On
AllowCONNECT 443 9002
"""
MODULES = ("mpm_event", "authz_core", "status", "proxy", "proxy_http", "proxy_connect")
TINYPROXY = "Port {port}\nListen 127.0.0.1\nTimeout 5\nMaxClients 50\n"
VARNISH = """\
vcl 4.1;
backend default { .host = "127.0.0.20"; .port = "80"; }
sub vcl_recv {
    if (req.http.host != "127.0.0.1:PORT") { return (synth(421)); }
    if (req.method != "GET" && req.method != "HEAD") { return (synth(405)); }
    if (req.http.Authorization != "Basic YTpwYXNzLWEtMDEyMzQ1Njc4OQ==") { return (synth(401)); }
    if (req.url !~ "^/pool/") { return (synth(404)); }
}
sub vcl_backend_fetch { set bereq.http.Host = "upstream.test"; unset bereq.http.X-Forwarded-Host; unset bereq.http.X-Forwarded-For; }
sub vcl_backend_response { if (beresp.status >= 300 && beresp.status < 400) { return (abandon); } set beresp.uncacheable = true; }
sub vcl_synth { if (resp.status == 401) { set resp.http.WWW-Authenticate = "Basic realm=x"; } }
sub vcl_deliver { unset resp.http.X-Varnish; unset resp.http.Age; unset resp.http.Via; }
"""


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def lighttpd(fixture, text):
    directory = fixture.world.directory
    (directory / "root" / "dav").mkdir(parents=True)
    (directory / "root" / "dav" / "ok.txt").write_text("hello\n")
    (directory / "logins").write_text(f"{USER}:{PASSWORD}\n{USER2}:{PASSWORD2}\n")
    (directory / "conf").write_text((LIGHTTPD + text).format(directory=directory, port=PORT))
    fixture.world.run("lighttpd", program("lighttpd"), "-D", "-f", directory / "conf")


def lighttpd_dav(fixture):
    lighttpd(fixture, DAV)


def lighttpd_read_only(fixture):
    lighttpd(fixture, READ_ONLY)
    fixture.basic, fixture.basic2 = (USER, PASSWORD), (USER2, PASSWORD2)


def git(fixture, push):
    lighttpd(fixture, GIT)
    repository = fixture.world.directory / "root" / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    subprocess.run(["git", "-C", repository, "config", "http.receivepack", push], check=True)


def apache_forward(fixture):
    directory = fixture.world.directory
    (directory / "root").mkdir()
    modules = "\n".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so" for m in MODULES)
    (directory / "conf").write_text(APACHE.format(directory=directory, port=PORT, modules=modules))
    fixture.world.run("apache", program("apache2"), "-DFOREGROUND", "-f", directory / "conf")


def tinyproxy(fixture):
    (fixture.world.directory / "conf").write_text(TINYPROXY.format(port=PORT))
    fixture.world.run("tinyproxy", program("tinyproxy"), "-d", "-c", fixture.world.directory / "conf")


def varnish(fixture):
    directory = fixture.world.directory
    (directory / "vcl").write_text(VARNISH.replace("PORT", str(PORT)))
    fixture.world.run("varnish", program("varnishd"), "-F", "-a", f"127.0.0.1:{PORT}", "-f", directory / "vcl", "-n", directory / "work", "-s", "malloc,16m", "-j", "none")
    fixture.basic, fixture.basic2 = (USER, PASSWORD), (USER2, PASSWORD2)


def json_server(fixture, *options):
    directory = fixture.world.directory
    (directory / "db.json").write_text(json.dumps({"notes": [{"id": 1, "text": "hello"}]}))
    home = installed("json-server", JSON_SERVER)
    fixture.world.run("json-server", shutil.which("node"), home / "node_modules/json-server/lib/cli/bin.js", directory / "db.json", "--port", str(PORT), "--host", "127.0.0.1",
                      *options, env={"PATH": os.environ["PATH"], "HOME": str(directory)})


NGINX = """\
daemon off; master_process off; pid {directory}/pid; error_log stderr warn;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  ssl_certificate {directory}/server.pem; ssl_certificate_key {directory}/server.key;
  server {{ listen 127.0.0.1:{port} ssl; server_name tls.test; {check} location / {{ return 200 "the service\\n"; }} location /secret {{ return 401; }} }}
  server {{ listen 127.0.0.1:{port} ssl; server_name localhost; {check} location / {{ return 200 "the neighbour\\n"; }} }}
}}
"""


def nginx_tls(fixture, check=""):
    """Two names at one address, each with a site of its own; the CA is in ca.pem."""
    directory = fixture.world.directory
    authority = certificates.Authority()
    authority.write(directory / "ca.pem")
    authority.server(directory, ["tls.test", "localhost"])
    (directory / "conf").write_text(NGINX.format(directory=directory, port=PORT, check=check))
    fixture.world.run("nginx", program("nginx"), "-c", directory / "conf", "-p", directory)


SETTINGS = {
    "nginx-tls": nginx_tls,
    "nginx-tls-421": lambda f: nginx_tls(f, "if ($ssl_server_name != $host) { return 421; }"),
    "lighttpd-dav": lighttpd_dav,
    "lighttpd-read-only": lighttpd_read_only,
    "git-push": lambda f: git(f, "true"),
    "git-read": lambda f: git(f, "false"),
    "apache-forward": apache_forward,
    "tinyproxy": tinyproxy,
    "varnish-hardened": varnish,
    "json-server": json_server,
    "json-server-read-only": lambda f: json_server(f, "--read-only"),
}


def start(fixture):
    fixture.port = PORT
    fixture.world.resolver()
    SETTINGS[fixture.setting](fixture)
    fixture.world.ready(PORT)
