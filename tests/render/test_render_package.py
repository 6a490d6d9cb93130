"""What ``import render`` offers, and what it does not load."""

import subprocess
import sys

import pytest

import render


def test_the_functions_under_the_commands_are_there():
    for name in render.__all__:
        assert getattr(render, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'render_all'"):
        _ = render.render_all


def test_rendering_is_imported_without_torch_and_bpy():
    code = "import sys; from render import render_dataset, merge_parts; print({'torch', 'bpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
