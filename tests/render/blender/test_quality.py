import json

import pytest

from render.blender.quality import QUALITIES, Quality


def test_presets_are_named_as_the_command_names_them():
    assert list(QUALITIES) == ["published", "standard", "draft"]
    assert all(preset.name == name for name, preset in QUALITIES.items())


def test_published_quality_is_that_of_the_authors():
    published = QUALITIES["published"]
    assert published.samples == 512
    assert published.adaptive_threshold is None
    assert published.light_choice == "equal"
    assert published.denoiser is not None


@pytest.mark.parametrize("name", QUALITIES)
def test_plain_data_hold_a_quality(name):
    text = json.dumps(QUALITIES[name].to_json())
    assert Quality.from_json(json.loads(text)) == QUALITIES[name]


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(ValueError, match="unknown quality 'best'; choose from published, standard, draft"):
        QUALITIES.find("best")
    with pytest.raises(ValueError, match="1 or more samples, not 0"):
        Quality("none", samples=0)
    with pytest.raises(ValueError, match=r"threshold in \(0, 1\]"):
        Quality("loose", samples=8, adaptive_threshold=2.0)
    with pytest.raises(ValueError, match="speed: no such field; the fields are name"):
        Quality.from_json({"name": "x", "samples": 8, "speed": 3})
    with pytest.raises(ValueError, match=r"quality\.samples"):
        Quality.from_json({"name": "x", "samples": 8.5})
