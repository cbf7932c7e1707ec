"""`make scenario` goes as it says."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXEAT = Path(os.environ.get("EXEAT", HERE.parents[1] / "build" / "exeat")).absolute()


def test_the_canary_leaves_through_squid_and_not_through_exeat():
    done = subprocess.run([sys.executable, "-B", HERE / "scenario.py", EXEAT], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "through squid it got out by six ways, through Exeat by none" in done.stdout
