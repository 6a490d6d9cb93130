"""What ``ident3d info`` refuses, before it looks at a dataset."""

from pathlib import Path

import pytest

from ident3d.__main__ import main


@pytest.mark.parametrize("option", [("--split", "val"), ("--scale", "own"), ("--draws", "-5"), ("--seed", "3")])
def test_options_of_a_conditional_that_is_not_given(native, caplog, option):
    assert main(["info", str(native.root), *option]) == 2
    assert f"{option[0]} have no effect without a conditional: give one with --conditional" in caplog.text


@pytest.mark.parametrize("plot", ["realised.foo", "realised", "."])
def test_a_plot_that_cannot_be_drawn(native, tmp_path, caplog, capsys, plot):
    pytest.importorskip("matplotlib")
    command = ["info", str(native.root), "--conditional", "normal(0.3)", "--plot", str(tmp_path / plot)]
    assert main(command) == 2
    assert "a plot is an image file, such as realised.png, not" in caplog.text
    assert capsys.readouterr().out == ""


def test_a_plot_in_a_folder_that_is_not_there(native, tmp_path, caplog):
    pytest.importorskip("matplotlib")
    command = ["info", str(native.root), "--conditional", "normal(0.3)", "--plot", str(tmp_path / "none" / "x.png")]
    assert main(command) == 2
    assert "there is no folder" in caplog.text


def test_roots_that_are_none(native, caplog):
    assert main(["info", ""]) == 2
    assert "the root of a dataset is empty; give '.' for this folder" in caplog.text
    assert main(["verify", str(native.root / "manifest.json")]) == 2
    assert "manifest.json is a file, and a dataset is a folder" in caplog.text


def test_folders_that_cannot_be_made(native, tmp_path, caplog):
    file = tmp_path / "file"
    file.write_text("x")
    for out in (file, file / "below"):
        assert main(["convert", str(native.root), str(out), "--to", "published"]) == 2
        assert f"OUT {out} is not a folder: {file} is a file" in caplog.text
    assert main(["download", str(file), "--splits", "test"]) == 2
    assert f"{file} is a file; give a folder to fetch the dataset into" in caplog.text
    assert main(["download", "", "--splits", "test"]) == 2
    assert "the folder to fetch the dataset into has no name" in caplog.text


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no files")
@pytest.mark.parametrize(
    "command", [["convert", "sample", "/proc/ident3d", "--to", "published"], ["download", "/proc"]]
)
def test_a_place_that_takes_no_files_is_no_reason_to_wait(command, caplog):
    assert main(command) == 2
    assert "No such file or directory: '/proc/.ident3d.lock'" in caplog.text or "/proc/.download.lock" in caplog.text
