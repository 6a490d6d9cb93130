"""Which part of a dataset one machine renders."""

import pytest

from render.dataset.spec import Part


def _slurm(task, count, low, high):
    values = {"ID": task, "COUNT": count, "MIN": low, "MAX": high}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_the_parts_are_disjoint_cover_everything_and_are_even(count):
    items = list(range(16))
    parts = [Part(number, count).take(items) for number in range(count)]
    assert sorted(item for part in parts for item in part) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_part_is_read_from_its_text():
    assert Part.parse("0/4") == Part(0, 4)
    assert Part.parse(" 3 / 4 ") == Part(3, 4)
    assert str(Part(3, 4)) == "3/4"


@pytest.mark.parametrize("text", ["4/4", "0/0", "5/4"])
def test_a_part_outside_the_count_is_refused_and_counting_from_zero_is_said(text):
    with pytest.raises(ValueError, match=f"count from 0.*not {text}"):
        Part.parse(text)


@pytest.mark.parametrize("text", ["", "1", "1/", "/4", "-1/4", "a/b", "1/4/2", "0.5/2"])
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match="expected a part as K/N"):
        Part.parse(text)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (_slurm(0, 4, 0, 3), Part(0, 4)),
        (_slurm(4, 4, 1, 4), Part(3, 4)),
        (_slurm(30, 4, 10, 40), Part(2, 4)),
        (_slurm(5, 1, 5, 5), Part(0, 1)),
    ],
)
def test_a_slurm_array_says_which_part(environment, expected):
    assert Part.from_slurm(environment) == expected


@pytest.mark.parametrize("environment", [_slurm(3, 3, 1, 6), _slurm(3, 3, 1, 7), _slurm(1, 2, 1, 1)])
def test_an_uneven_slurm_array_is_refused(environment):
    with pytest.raises(ValueError, match="unevenly spaced"):
        Part.from_slurm(environment)


def test_a_slurm_array_without_its_count_is_refused():
    with pytest.raises(ValueError, match="SLURM_ARRAY_TASK_COUNT is None"):
        Part.from_slurm({"SLURM_ARRAY_TASK_ID": "1"})
