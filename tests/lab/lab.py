"""`make lab PROGRAM=squid SETTING=hardened`: one fixture for hand work, until it is interrupted."""
import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import manifest
from fixture import MODULES, Fixture, settings
from world import IMPOSSIBLE, POSSIBLE


def show(fixture, path, service, exeat):
    pid = fixture.world.processes[-1][1].pid
    enter = f"nsenter -t {pid} -n -m"
    print(f"""\
{fixture.program}, {fixture.setting}, on http://127.0.0.1:{fixture.port} in a network of its own
  manifest     {path}
  logs         {fixture.world.directory}/*.log
  ask          {enter} curl -si http://127.0.0.1:{fixture.port}/
  audit        {enter} {exeat} audit {service} -m {path} --active --tenant2 --issuer-key --beacon --rate 100
Interrupt it to end it.""", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    parser.add_argument("program", choices=MODULES, nargs="?")
    parser.add_argument("setting", nargs="?")
    parser.add_argument("--exeat", default="exeat")
    parser.add_argument("--upstream", action="store_true", help="with the lab's upstream, instead of leaving its addresses to the audit")
    args = parser.parse_args()
    if (args.program, args.setting) not in settings():
        sys.exit("lab: give PROGRAM and SETTING, one of\n" + "".join(f"  make lab PROGRAM={p} SETTING={s}\n" for p, s in settings()))
    if not POSSIBLE:
        sys.exit("lab: " + IMPOSSIBLE)
    directory = Path(tempfile.mkdtemp(prefix="exeat-lab-"))
    directory.chmod(0o755)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Fixture(args.program, args.setting, directory / args.program, leave=not args.upstream) as fixture:
            show(fixture, *manifest.write(fixture), args.exeat)
            signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
