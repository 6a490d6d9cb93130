"""The ident3d command: every command once through its command line."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ident3d.download
from ident3d.__main__ import main
from ident3d.dataset import ThreeDIdent
from ident3d.errors import DatasetError
from ident3d.storage.layouts import resolve_root

COMMANDS = ["info", "verify", "convert", "download", "score", "validate", "doctor"]


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"• {command}" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    assert f"\n  ident3d {command} " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["inform"], ["info"], ["convert", "a", "b", "--to", "zip"]])
def test_a_line_that_cannot_be_parsed_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err


def test_info_shows_what_is_there(native, capsys):
    assert main(["info", str(native.root)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{native.root}: native layout" in shown
    assert "train 70 8x8 no" in shown
    assert "test 9 8x8 no" in shown
    assert ThreeDIdent(native.root, "test").fingerprint[:16] in shown
    assert "0 position_x position -3 to 3 bu" in shown
    assert "hue_map wrapped" in shown
    assert "seed 3" in shown


def test_info_as_json(native_pairs, capsys):
    assert main(["info", str(native_pairs.root), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    train, test = shown["splits"]
    assert (train["name"], train["rows"], train["width"], train["height"]) == ("train", 70, 8, 8)
    assert test["fingerprint"] == ThreeDIdent(native_pairs.root, "test").fingerprint
    assert train["has_positives"]
    np.testing.assert_allclose(train["low"], native_pairs.latents["train"].min(axis=0))
    np.testing.assert_allclose(train["high"], native_pairs.latents["train"].max(axis=0))
    assert [factor["name"] for factor in shown["factors"]][:2] == ["position_x", "position_y"]
    assert shown["provenance"] == {
        "seed": 3,
        "latents": "uniform",
        "pairs": "normal(sigma=0.1)",
        "hue_map": "wrapped",
        "device": ["cpu"],
    }
    assert shown["size"] == sum(path.stat().st_size for path in native_pairs.root.rglob("*") if path.is_file())


def test_info_counts_what_is_there_of_what_is_planned(native, capsys):
    path = native.root / "manifest.json"
    data = json.loads(path.read_text())
    (native.root / "data" / data["shards"].pop()["name"]).unlink()
    path.write_text(json.dumps(data))
    assert main(["info", str(native.root)]) == 0
    assert "train  64 of 70  8x8" in capsys.readouterr().out


def test_info_shows_what_the_dataset_makes_of_a_conditional(native, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    arguments = ["info", str(native.root), "--conditional", "normal(sigma=0.1)", "--draws", "4000"]
    assert main([*arguments, "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert "native layout" in shown
    assert "normal(sigma=0.1) matched in 70 images, from 4,000 pairs" in shown
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--json"]) == 0
    realised = json.loads(capsys.readouterr().out)["realised_conditional"]
    # 0.0976 is the width of the conditional's own displacement in the box, 0.0976 / sqrt(2 * 4000) its error.
    np.testing.assert_allclose(realised["nominal_std"], 0.0976, atol=5 * 0.0976 / 8000**0.5)
    assert min(realised["realised_std"]) > 0.3  # in 70 images the nearest one is far away


def test_info_matches_in_the_metric_of_the_conditional_when_asked_to(tmp_path, make_native, capsys):
    made = make_native(tmp_path / "larger", {"train": 2000}, side=2, rows_per_shard=2000)
    found = {}
    for scale in ("plain", "own"):
        conditional = "normal(sigma={position: 0.05, rest: 0.5})"
        command = ["info", str(made.root), "--conditional", conditional, "--scale", scale, "--draws", "2000", "--json"]
        assert main(command) == 0
        found[scale] = json.loads(capsys.readouterr().out)["realised_conditional"]["realised_std"]
    assert max(found["own"][:3]) < 0.6 * min(found["plain"][:3])
    assert min(found["own"][3:]) > max(found["plain"][3:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "plot.png"], "give one with --conditional"),
        (["--conditional", "normal(sigma=-1)"], "cannot read the conditional 'normal(sigma=-1)'"),
        (["--conditional", "vmf(kappa=3)"], "is not defined on"),
        (["--conditional", "uniform()", "--split", "val"], "has no split 'val'; it has train, test"),
    ],
)
def test_info_refuses_what_it_cannot_show(native, caplog, arguments, message):
    assert main(["info", str(native.root), *arguments]) == 2
    assert message in caplog.text


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_told_nothing(native, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ident3d", "info", str(native.root)]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_convert_makes_a_dataset_that_verify_finds_sound(published, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["convert", str(published.root), str(out), "--to", "native", "--rows-per-shard", "20"]) == 0
    assert len(list((out / "data").glob("*.parquet"))) == 5
    shown = capsys.readouterr()
    assert shown.err == ""  # no bar where there is no terminal
    assert shown.out == f"{out}: native layout, 70 train and 9 test images of 8x8\n"
    assert main(["verify", str(out)]) == 0
    assert "sound (train, test)" in capsys.readouterr().out


def test_convert_says_what_is_there_when_it_makes_nothing(published, capsys, caplog):
    folder = str(published.root)
    for _ in range(2):
        assert main(["convert", folder, folder, "--to", "decoded"]) == 0
        assert capsys.readouterr().out == f"{folder}: decoded layout, 70 train and 9 test images of 8x8\n"
    assert f"{published.root / 'decoded'} is up to date" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_shows_how_far_a_conversion_is_on_a_terminal(published, tmp_path):
    import pty
    import termios

    reading, writing = pty.openpty()
    termios.tcsetwinsize(writing, (24, 100))
    command = [
        sys.executable,
        "-m",
        "ident3d",
        "convert",
        str(published.root),
        str(tmp_path / "out"),
        "--to",
        "decoded",
    ]
    done = subprocess.run(command, stderr=writing, check=False)
    os.close(writing)
    shown = os.read(reading, 10_000).decode()
    os.close(reading)
    assert done.returncode == 0
    assert "79/79" in shown
    assert "images" in shown


def test_verify_ends_with_1_where_something_is_wrong(published, capsys):
    (published.root / "train" / "images" / "05.png").write_bytes(b"no image")
    assert main(["verify", str(published.root)]) == 1
    shown = capsys.readouterr().out
    assert "id 5, is not a readable image" in shown
    assert "1 fault" in shown


def test_download_fetches_the_splits_it_is_told_to(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "ident3d.commands.download.download_published", lambda *args, **options: asked.append((args, options))
    )
    root = tmp_path / "root"
    shutil.copytree(resolve_root("sample"), root)
    assert main(["download", str(root), "--splits", "test", "--source", "http://127.0.0.1:9", "--keep-archives"]) == 0
    assert main(["download", str(root)]) == 0
    assert asked == [
        ((str(root), ("test",)), {"source": "http://127.0.0.1:9", "keep_archives": True}),
        ((str(root), ("train", "test")), {"source": ident3d.download.SOURCE, "keep_archives": False}),
    ]


def test_a_failed_download_ends_with_1(tmp_path, monkeypatch, caplog):
    def fail(*args, **options):
        raise DatasetError("the server answered 404")

    monkeypatch.setattr("ident3d.commands.download.download_published", fail)
    assert main(["download", str(tmp_path)]) == 1
    assert "error: the server answered 404" in caplog.text


def test_score_and_validate_read_submissions(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["validate", str(tmp_path / "empty")]) == 1
    assert "is not a valid submission" in capsys.readouterr().out
    assert main(["score", str(tmp_path / "empty"), "sample"]) in {1, 2}


def test_errors_are_one_line_on_stderr_of_a_real_process(tmp_path):
    command = [sys.executable, "-m", "ident3d", "info", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: there is no folder {tmp_path / 'nowhere'}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_for_shells_hold_commands_and_options(shell, capsys):
    assert main(["--tyro-print-completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "rows-per-shard", "keep-archives"):
        assert word in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [(["con"], ["convert"]), (["v"], ["verify", "validate"]), (["convert", "--to", "d"], ["decoded"])],
)
def test_bash_completes_what_is_typed(tmp_path, capsys, words, found):
    assert main(["--tyro-write-completion", "bash", str(tmp_path / "completion")]) == 0
    assert not capsys.readouterr().out
    code = f"""
        source {tmp_path / "completion"}
        COMP_WORDS=(ident3d {" ".join(words)})
        COMP_CWORD={len(words)}
        $(complete -p ident3d | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split()) == sorted(found), done.stderr


def test_a_terminal_that_knows_ascii_alone_shows_any_path(tmp_path):
    folder = tmp_path / "Ümläut"
    shutil.copytree(resolve_root("sample"), folder)
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "ident3d", "info", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u00dcml\\u00e4ut" in done.stdout
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["root"] == str(folder)
