"""The generated files, as text and in a browser."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ident3d.submission import Compute
from leaderboard.entry import Kind, Result, Verification
from leaderboard.page import _duration, generate, markdown_escaped

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>|`x`|[a](http://b)"


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that tags nest."""

    VOID = ("meta", "input", "br", "img", "link")

    def __init__(self):
        super().__init__()
        self.found, self.stack = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


@pytest.fixture
def board(board_of, make_entry):
    return board_of(
        make_entry(
            "Best", 0.8, compute=Compute(2, "1 gpu"), verification=Verification("2026-02-01", "cd" * 32, 0.8, 0.79, 10)
        ),
        make_entry("Second", 0.6, compute=Compute(20, "1 gpu"), steps=5),
        make_entry(HOSTILE[:80], 0.3, method=HOSTILE, authors=(HOSTILE[:60],), warnings=(HOSTILE,)),
        make_entry("From a paper", 0.7, kind=Kind.REPORTED),
        make_entry("Elsewhere", 0.5, track="other"),
    )


@pytest.fixture
def page(board, folder):
    for name, text in generate(board).items():
        (folder / name).write_text(text)
    return folder / "index.html"


def test_it_is_well_formed_and_needs_nothing_from_elsewhere(page):
    tags = Tags()
    tags.feed(page.read_text())
    assert tags.stack == []
    assert not [attrs for tag, attrs in tags.found if tag in ("link", "iframe")]
    sources = [(tag, attrs["src"].partition(",")[0]) for tag, attrs in tags.found if "src" in attrs]
    assert set(sources) == {("img", "data:image/webp;base64")}
    assert all(attrs["alt"] for tag, attrs in tags.found if tag == "img")
    assert [tag for tag, _ in tags.found].count("script") == 1
    assert not [name for _, attrs in tags.found for name in attrs if name.startswith("on") or name == "style"]
    names = [attrs["id"] for _, attrs in tags.found if "id" in attrs]
    assert len(set(names)) == len(names)
    targets = [attrs["href"][1:] for tag, attrs in tags.found if attrs.get("href", "").startswith("#")]
    assert set(targets) <= set(names)


def test_what_an_entry_may_leave_out_is_left_out(board_of, make_entry):
    r2, mcc = Result(0.5, chance=0.0), Result(0.5)
    for text in generate(board_of(make_entry(results={"r2": r2, "mcc_pearson": mcc}))).values():
        assert "50.00" in text


def test_hours_are_read_as_hours_and_percentages_are_the_only_unit(page):
    text = page.read_text()
    assert ">2.0 h<" in text
    assert "2.0 h on 1 gpu" in text
    assert "Best: R2 80.00%, MCC 72.00%" in text
    assert [_duration(hours) for hours in (1.3912, 0.5, 0.25, 1 / 60, 0.001)] == [
        "1.4 h",
        "0.5 h",
        "15 min",
        "1 min",
        "4 s",
    ]


def test_links_home_are_there_where_the_address_is_known(board, monkeypatch):
    before = generate(board)
    assert not any("example.org" in text for text in before.values())
    monkeypatch.setattr("leaderboard.page.repository_address", lambda: "https://example.org/lab")
    after = generate(board)
    assert '<a href="https://example.org/lab">Repository</a>' in after["index.html"]
    assert "https://example.org/lab/blob/HEAD/docs/submitting.md" in after["index.html"]
    assert "(https://example.org/lab/blob/HEAD/docs/submitting.md)" in after["README.md"]


def test_a_track_that_nobody_has_pinned_says_so(board):
    tracks = {name: replace(track, latents_sha256="") for name, track in board.tracks.items()}
    for text in generate(replace(board, tracks=tracks)).values():
        assert text.count("Takes reported numbers alone") == 2


def test_the_same_board_gives_the_same_text(board):
    assert generate(board) == generate(board)


def test_damaged_entries_are_named(board, folder):
    from leaderboard.board import Board

    (folder / "entries" / "tiny" / "torn.json").write_text("{")
    for text in generate(Board.read(folder)).values():
        assert "torn.json" in text


def test_markdown_cannot_be_broken_out_of(board):
    readme = generate(board)["README.md"]
    assert "<script" not in readme
    assert "<img" not in readme
    (line,) = [line for line in readme.splitlines() if "hacked" in line]
    assert line.replace("\\|", "").count("|") == 8, "the table keeps its seven columns"
    assert markdown_escaped("www.x.org WWW.x.org HTTP://x.org") == "www\\.x.org WWW\\.x.org HTTP\\://x.org"
    assert markdown_escaped("a|b\n*c* <d> & [e](http://f)") == "a\\|b \\*c\\* &lt;d&gt; &amp; \\[e\\](http\\://f)"


class TestInTheBrowser:
    @pytest.fixture
    def opened(self, browser, page):
        browser.errors()
        browser.open(page)
        return browser

    def names(self, browser):
        return browser.script(
            "return [...document.querySelectorAll('section:not([hidden]) table.board tbody:not([hidden]) th')]"
            ".map((one) => one.textContent)"
        )

    def press_enter_on(self, browser, heading):
        browser.script(
            "[...document.querySelectorAll('[data-track=tiny] thead button')]"
            ".find((one) => one.textContent === arguments[0]).focus()",
            heading,
        )
        browser.press("\ue007")

    def test_it_loads_in_order(self, opened):
        assert self.names(opened) == ["Best", "From a paper", "Second", HOSTILE[:80], "Elsewhere"]
        assert opened.script("return document.getElementById('count').value") == "5 of 5 entries shown"
        assert opened.errors() == []

    def test_a_hostile_name_is_text(self, opened):
        assert opened.script("return window.hacked === undefined")
        assert HOSTILE[:80] in self.names(opened)
        assert opened.script("return document.querySelectorAll('img:not([src^=data])').length") == 0

    def test_sorting_by_keyboard(self, opened):
        self.press_enter_on(opened, "Name")
        assert self.names(opened)[:2] == [HOSTILE[:80], "Best"]
        head = "return document.querySelectorAll('[data-track=tiny] thead th')[1].getAttribute('aria-sort')"
        assert opened.script(head) == "ascending"
        self.press_enter_on(opened, "Name")
        assert self.names(opened)[0] == "Second"
        assert opened.script(head) == "descending"
        self.press_enter_on(opened, "MCC, %")
        assert self.names(opened)[:4] == ["Best", "Second", HOSTILE[:80], "From a paper"], (
            "what has no value comes last"
        )
        self.press_enter_on(opened, "MCC, %")
        assert self.names(opened)[:4] == [HOSTILE[:80], "Second", "Best", "From a paper"]

    def test_filtering(self, opened):
        set_value = (
            "const one = document.getElementById(arguments[0]); one[arguments[1]] = arguments[2];"
            "one.dispatchEvent(new Event('input'))"
        )
        opened.script("document.getElementById('words').focus()")
        opened.press(*"SeCond")
        assert self.names(opened) == ["Second"]
        assert opened.script("return document.getElementById('count').value") == "1 of 5 entries shown"
        shown = (
            "return [...document.querySelectorAll('svg a:not([hidden])')].map((one) => one.getAttribute('aria-label'))"
        )
        assert all(label.startswith("Second") for label in opened.script(shown))
        opened.script(set_value, "words", "value", "")
        opened.script(set_value, "reported", "checked", False)
        assert "From a paper" not in self.names(opened)
        opened.script(set_value, "verified", "checked", True)
        assert self.names(opened) == ["Best"]
        opened.script(set_value, "verified", "checked", False)
        opened.script(set_value, "track", "value", "other")
        assert self.names(opened) == ["Elsewhere"]

    def test_the_filters_are_in_the_address(self, opened, page):
        opened.script("document.getElementById('words').focus()")
        opened.press(*"best")
        opened.script("const one = document.getElementById('reported'); one.click()")
        assert opened.comes_true("location.search === '?search=best&reported=no'")
        assert opened.errors() == []
        opened.call("POST", "/url", {"url": f"{page.as_uri()}?track=tiny&search=second&verified=no#tiny-3"})
        assert self.names(opened) == ["Second"]
        assert opened.script("return document.querySelector('#tiny-3 details').open")

    def test_a_track_without_hits_says_so(self, opened):
        opened.script("document.getElementById('words').focus()")
        opened.press(*"best")
        says = (
            "return [...document.querySelectorAll('section[data-track]')].map((one) =>"
            "[one.querySelector('.none').hidden, one.querySelector('.hits').hidden])"
        )
        assert opened.script(says) == [[True, False], [False, True]]

    @pytest.mark.parametrize("width", [400, 1400])
    def test_nothing_is_cut_and_details_push_nothing_aside(self, opened, page, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        opened.devtools("Emulation.setDeviceMetricsOverride", size)
        try:
            opened.open(page)
            outside = (
                "return [...document.querySelectorAll('main *, header *, .filters *')].filter((one) =>"
                "one.getClientRects().length && !one.closest('svg')"
                "&& one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"
            )
            assert opened.script(outside) == 0
            places = (
                "return [...document.querySelectorAll('.board tr:not(.more) > *')]"
                ".map((one) => one.getBoundingClientRect().right)"
            )
            before = opened.script(places)
            opened.script("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            assert opened.script(places) == pytest.approx(before, abs=1)
            assert opened.script(outside) == 0
        finally:
            opened.devtools("Emulation.clearDeviceMetricsOverride", {})

    def test_a_point_leads_to_its_entry(self, opened):
        opened.script("document.querySelector('svg a[data-entry=tiny-3]').focus()")
        opened.press("\ue007")
        assert opened.comes_true("location.hash === '#tiny-3'")
        assert opened.comes_true("document.querySelector('#tiny-3 details').open")

    def test_every_control_has_a_name(self, opened):
        nameless = opened.script(
            "return [...document.querySelectorAll('button, input, select, svg a, [role=region]')].filter((one) =>"
            "!(one.labels && one.labels.length) && !one.textContent.trim() && !one.getAttribute('aria-label')"
            "&& !one.getAttribute('aria-labelledby')).length"
        )
        assert nameless == 0
