"""Every real program of the lab is started once, all of them at the same time, when the first test asks for one."""
import concurrent.futures
import shutil
import tempfile
from pathlib import Path

import pytest

from fixture import PROGRAMS, Fixture, settings
from world import IMPOSSIBLE, POSSIBLE

ALLOWED = Path(__file__).parent.parent / "skips.allowed"


def pytest_collection_modifyitems(items):
    if not POSSIBLE:
        assert IMPOSSIBLE in ALLOWED.read_text().splitlines()
        for item in items:
            item.add_marker(pytest.mark.skip(reason=IMPOSSIBLE))


class Lab:
    def __init__(self, directory):
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        self.starting = {k: self.pool.submit(Fixture, *k, directory / "-".join(k)) for k in settings(PROGRAMS)}

    def get(self, module, setting):
        return self.starting[module, setting].result()

    def close(self):
        for future in self.starting.values():
            if not future.cancel() and not future.exception():
                future.result().world.close()
        self.pool.shutdown()


@pytest.fixture(scope="session")
def lab():
    directory = Path(tempfile.mkdtemp(prefix="exeat-lab-"))
    directory.chmod(0o755)  # squid drops its privileges; pytest's own directories are closed to others
    made = Lab(directory)
    yield made
    made.close()
    shutil.rmtree(directory)
