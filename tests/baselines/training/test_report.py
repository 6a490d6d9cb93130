import ident3d
from baselines.pairs import find_source
from baselines.training.report import curves, write_report
from ident3d.embedding import embed
from tests.baselines.training.short_run import CPU


def test_the_report_stands_alone_and_shows_lambda(finished, images_root):
    page = write_report(finished, images_root, CPU.device).read_text()
    assert "Learned Lambda" in page
    assert "<td>content</td>" in page
    assert "<td>position_x</td>" in page
    assert page.count("data:image/png;base64,") == 1 + 1 + 10 + 1, "curves, pairs, a plot for each factor, Lambda"
    assert '<meta name="viewport"' in page
    assert "Shown: 32 pairs, 64 images, in 4 steps of 8; 100 images were trained on, each 0.6 times on average" in page
    assert "60 others are evaluated on" in page


def test_scores_stand_beside_their_intervals_and_the_chance_level(finished, images_root):
    page = write_report(finished, images_root, CPU.device).read_text()
    run = find_source(finished.recipe().pairs).open(
        images_root, finished.options(), CPU.device, in_own_metric=finished.recipe().match_in_own_metric
    )
    held_out = run.held_out
    embeddings = embed(finished.encoder()[0], held_out)
    found = ident3d.metrics.score(held_out.latents, embeddings, held_out.rows.numpy(), factors=held_out.factors)
    r2 = found.metrics["r2"]
    shown = f"<td>{r2.value.mean:.3f}</td><td>{r2.low.mean:.3f} to {r2.high.mean:.3f}</td><td>{r2.chance.mean:.3f}</td>"
    assert f"<td>mean</td>{shown}" in page


def test_curves_show_the_mcc_too():
    lines = [{"step": step, "loss": 1 / step, "r2": step / 10, "mcc": step / 20} for step in range(1, 5)]
    drawn = [axes.lines[0].get_ydata() for axes in curves(lines).axes]
    assert [list(values) for values in drawn] == [[line[name] for line in lines] for name in ("loss", "r2", "mcc")]


def test_the_report_needs_nothing_from_elsewhere(finished, images_root):
    page = write_report(finished, images_root, CPU.device).read_text()
    assert "http" not in page.split("<h2>Options")[0]
