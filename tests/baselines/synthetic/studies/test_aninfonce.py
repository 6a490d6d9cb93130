import pytest

from baselines.synthetic.studies.aninfonce import aninfonce, precision_of


def test_lambda_is_that_of_the_page():
    assert precision_of("bimodal", 10) == (12.5,) * 5 + (2.5,) * 5
    assert precision_of("linear", 10)[::9] == (12.5, 2.5)
    assert precision_of("bimodal", 4) == (12.5, 12.5, 1.5, 1.5)


def test_what_is_reported_is_halved_as_the_code_has_a_factor_one_half():
    row = aninfonce()[0]
    assert row.content == 5
    assert row.reported["content_precision"] == pytest.approx(23.1 / 2)
