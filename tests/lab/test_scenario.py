"""`make scenario` goes as it says."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXEAT = Path(os.environ.get("EXEAT", HERE.parents[1] / "build" / "exeat")).absolute()


def test_the_four_acts():
    done = subprocess.run([sys.executable, "-B", HERE / "scenario.py", EXEAT], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("through squid it got out by six ways, through Exeat by none", "the service is closed: HTTP/1.1 503",
                 "services:\n               packages:\n", "RL-4, Does it go where the path says? Covered: ",
                 "FU-6, Does it follow its upstream's redirects? Not covered, as the policy said", "apt installs through that policy",
                 "exeat audit packages --attest: it passes", "the door is open"):
        assert text in done.stdout, done.stdout
