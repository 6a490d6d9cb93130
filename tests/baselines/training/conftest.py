import pytest

from baselines.training.run import Run
from baselines.training.training import train_run
from tests.baselines.training.short_run import CPU, OPTIONS, RECIPE


@pytest.fixture(scope="session")
def finished(images_root, tmp_path_factory):
    """The short run, trained to its end."""
    run = Run(tmp_path_factory.mktemp("run"))
    train_run(run, RECIPE, OPTIONS, images_root, CPU)
    return run
