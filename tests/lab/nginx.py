"""
nginx as a cache in front of a registry: with the mistakes of many a recipe, and hardened. /pool/fetch is for whoever needs
objects of his own there: their names go into the query.
"""
import os
import shutil

PROGRAM = "nginx 1.22 proxy_cache"
PORT = 8085

COMMON = """\
daemon off; master_process off; pid {directory}/pid; error_log stderr warn;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  resolver 127.0.0.53 ipv6=off;
  proxy_cache_path {directory}/cache keys_zone=c:1m;
  add_header X-Cache $upstream_cache_status always;
"""

WEAK = """\
  map $http_host $dst {{ default $http_host; "~^127\\.0\\.0\\.1" upstream.test; cache.test upstream.test; }}
  proxy_cache c;
  proxy_cache_key $uri;
  proxy_ignore_headers Cache-Control Set-Cookie Vary Expires;
  proxy_cache_valid any 10m;
  set_real_ip_from 0.0.0.0/0;
  real_ip_header X-Forwarded-For;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://$dst; proxy_set_header Host $http_host; }}
    location ~ ^/fetch/([^/]+)/(.*)$ {{ proxy_cache off; proxy_pass http://$1/$2$is_args$args; }}
    location = /img {{ proxy_cache off; proxy_pass $arg_url; }}
    location = /admin {{ allow 10.0.0.0/8; deny all; proxy_cache off; proxy_pass http://$dst; proxy_set_header Host $http_host; }}
    location /static {{ alias {directory}/static/; }}
    location = /nginx_status {{ stub_status; }}
  }}
}}
"""

GOOD_LOCATION = """\
    location = {path} {{
      limit_except GET {{ deny all; }}
      proxy_pass http://upstream.test;
      proxy_set_header Host upstream.test;
      proxy_set_header X-Forwarded-Host ""; proxy_set_header X-Forwarded-For ""; proxy_set_header X-Forwarded-Proto "";
      proxy_cache c;
      proxy_cache_key $request_method$scheme$host$request_uri;
      proxy_cache_valid 200 10m;
      proxy_cache_bypass $http_authorization $http_cookie;
      proxy_no_cache $http_authorization $http_cookie $upstream_http_set_cookie;
      proxy_intercept_errors on;
      error_page 301 302 303 307 308 =502 /_handoff;
    }}
"""
GOOD_PATHS = ["/pool/ok_1.0_all.deb", "/pool/to/internal.test/x_1.0_all.deb", "/pool/to/listener.test/x_1.0_all.deb", "/pool/fetch",
              "/auth/public/page", "/cookie/page"]

HARDENED = """\
  server {{ listen 127.0.0.1:{port} default_server; return 421; }}
  server {{
    listen 127.0.0.1:{port};
    server_name cache.test 127.0.0.1;
""" + "".join(GOOD_LOCATION.replace("{path}", p) for p in GOOD_PATHS) + """\
    location = /_handoff {{ internal; return 502 "the upstream named another place\\n"; }}
    location / {{ return 404; }}
  }}
}}
"""

SETTINGS = {"weak": WEAK, "hardened": HARDENED}


def start(fixture):
    world, directory = fixture.world, fixture.world.directory
    world.resolver()
    for d in ("static", "cache"):
        (directory / d).mkdir()
    os.chmod(directory, 0o755)
    (directory / "static" / "page.txt").write_text("for everybody\n")
    (directory / "secret.txt").write_text("a secret beside it\n")
    (directory / "nginx.conf").write_text((COMMON + SETTINGS[fixture.setting]).format(directory=directory, port=PORT))
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    world.run("nginx", program, "-p", directory, "-c", directory / "nginx.conf", "-g", "user root;")
    world.ready(PORT)
    fixture.port = PORT
