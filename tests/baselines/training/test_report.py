from baselines.training.report import write_report
from tests.baselines.training.short_run import CPU


def test_the_report_stands_alone_and_shows_lambda(finished, images_root):
    page = write_report(finished, images_root, CPU.device).read_text()
    assert "Learned Lambda" in page
    assert "<td>content</td>" in page
    assert "<td>position_x</td>" in page
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page.split("<h2>Options")[0]
