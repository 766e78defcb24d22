# SPDX-License-Identifier: Apache-2.0
"""The page of the graph works in a real browser without a network, by mouse, keyboard and thumb."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page

import graph_story as story
from kope_tvm.cli import main
from kope_tvm.memory import Memory, experience_key

pytestmark = pytest.mark.e2e

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
CROWD = 2500
OPENS_IN_SECS = 20.0
"""To draw, search and go there, with room for a machine whose cores have other work too."""


@dataclass
class Opened:
    """A page, and what a browser said about it."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def choose_task(self, key: str) -> None:
        self.page.select_option("#task", key)

    def nodes(self, selector: str = "node") -> int:
        return int(self.page.evaluate("s => cy.nodes(s).length", selector))

    def edges(self, selector: str) -> int:
        return int(self.page.evaluate("s => cy.edges(s).length", selector))

    def spot(self, key: str) -> tuple[float, float]:
        """Where the point of a decision is on the screen."""
        at = self.page.evaluate("k => cy.getElementById(k).renderedPosition()", key)
        box = self.page.locator("#graph").bounding_box()
        assert box is not None
        return box["x"] + at["x"], box["y"] + at["y"]

    def click(self, key: str) -> None:
        self.page.mouse.click(*self.spot(key))

    def details(self) -> str:
        return self.page.locator("#details").inner_text()

    def is_whole(self) -> bool:
        """No request but for the file, no error, and nobody's script ran."""
        pwned = self.page.evaluate("typeof window.pwned") != "undefined"
        return len(self.requests) == 1 and not self.complaints and not pwned


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages of a short story, of a crowd and of nothing."""
    folder = tmp_path_factory.mktemp("page")
    for name, experiences in (
        ("story", story.STORY),
        ("crowd", story.crowd(CROWD)),
        ("empty", ()),
    ):
        memory = folder / f"{name}.sqlite"
        with Memory.open(memory) as opened:
            opened.record_many(experiences)
        args = ("memory", "export", "-o", folder / f"{name}.html", "--memory", memory)
        done = CliRunner().invoke(main, [*map(str, args)])
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def open_page(browser: Browser, folder: Path) -> Iterator[Open]:
    contexts = []

    def opener(size: Any = DESKTOP, scheme: Any = "light", name: str = "story") -> Opened:
        context = browser.new_context(
            viewport=size, color_scheme=scheme, offline=True, has_touch=size is PHONE
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.set_default_timeout(30_000)
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("console", lambda said: opened.complaints.append(said.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.goto((folder / f"{name}.html").as_uri())
        return opened

    yield opener
    for context in contexts:
        context.close()


def test_tasks_and_machines_filter_what_is_drawn(open_page: Open) -> None:
    opened = open_page()
    options = opened.page.locator("#task option").all_inner_texts()
    assert [text.split(":")[0] for text in options] == ["gelu", "softmax"]
    opened.choose_task(story.SOFTMAX)
    assert opened.nodes() == 8 + 2  # The decisions, and the untuned function on two machines.
    assert opened.nodes(".failed") == opened.nodes(".suspicious") == opened.nodes(".plan") == 1
    assert opened.edges(".repairs") == opened.edges(".transfers") == 1
    assert opened.edges(".winning") == 3 + 1
    opened.page.select_option("#machine", story.BOARD)
    assert opened.page.locator("#task option").count() == 1
    assert opened.nodes() == 2
    assert opened.edges(".transfers") == 0
    assert opened.is_whole()


def test_a_click_shows_all_that_is_known_of_a_decision(open_page: Open) -> None:
    opened = open_page()
    opened.choose_task(story.SOFTMAX)
    opened.click(experience_key(story.FUSED))
    told = opened.details()
    for words in (
        "fuse both passes", "1 ms ±7%, 4x, 8x in all", "chat", "rewrite", "812", "llvm 22.1.8",
        "2025-11-29 23:46:41 UTC", "run-1", "script of fused", "first guess (2x)",
    ):  # fmt: skip
        assert words in told
    opened.page.get_by_role("button", name="split(j, [4, 8]) (2x, 16x in all)").click()
    assert "500 µs, 2x, 16x in all: the fastest" in opened.details()
    opened.click(experience_key(story.CARRIED))
    assert "CARRIED OVER FROM" in opened.details()
    assert '{"inner":"2*VLEN"}' in opened.details()
    assert opened.is_whole()


def test_what_strangers_wrote_is_text(open_page: Open) -> None:
    opened = open_page(scheme="dark")
    opened.choose_task(story.SOFTMAX)
    opened.click(experience_key(story.DROPPED))
    assert f"drop the max {story.HOSTILE}" in opened.details()
    assert "E_NUMERICS max_rel 3.1e-2 at [63,0..15]" in opened.details()
    assert opened.page.locator("#details img, #details script").count() == 0
    opened.page.wait_for_timeout(200)
    assert opened.is_whole()


def test_a_search_finds_steps_through_and_reaches_other_tasks(open_page: Open) -> None:
    opened = open_page()
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("max keep")
    assert opened.page.locator("#matches").inner_text() == "0 of 1 in 1 more"
    opened.page.get_by_role("button", name="in 1 more").click()
    assert opened.page.input_value("#task") == story.SOFTMAX
    assert opened.nodes(".match") == 1
    assert opened.page.locator("#details h2").inner_text() == "keep the max"
    opened.page.fill("#words", "Numerics")  # The code of one, the signature of its repair.
    assert opened.nodes(".match") == 2
    found = set()
    for _ in range(2):
        opened.page.press("#words", "Enter")
        found.add(opened.page.locator("#details h2").inner_text())
    assert found == {"keep the max", f"drop the max {story.HOSTILE}"}
    opened.page.fill("#words", "")
    assert opened.nodes(".dimmed") == 0
    assert opened.is_whole()


def test_the_keyboard_walks_the_tree(open_page: Open) -> None:
    opened = open_page()
    opened.page.select_option("#machine", story.GUESS.machine_key)
    opened.choose_task(story.SOFTMAX)
    opened.page.focus("#graph")
    heard = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "b"):
        opened.page.keyboard.press(key)
        heard.append(opened.page.locator("#details h2").inner_text().split(" ")[0])
    assert heard == ["softmax", "first", "fuse", "tile", "first", "split(j,"]
    opened.page.keyboard.press("Escape")
    assert opened.nodes(".chosen") == 0
    before = opened.page.evaluate("cy.zoom()")
    opened.page.keyboard.press("+")
    assert opened.page.evaluate("cy.zoom()") > before
    assert opened.is_whole()


def test_a_drag_pans_and_a_wheel_zooms(open_page: Open) -> None:
    opened = open_page()
    opened.choose_task(story.SOFTMAX)
    before = opened.page.evaluate("({...cy.pan(), zoom: cy.zoom()})")
    opened.page.mouse.move(300, 700)
    opened.page.mouse.down()
    opened.page.mouse.move(400, 650, steps=4)
    opened.page.mouse.up()
    panned = opened.page.evaluate("cy.pan()")
    assert (panned["x"] - before["x"], panned["y"] - before["y"]) == pytest.approx((100, -50))
    opened.page.mouse.wheel(0, -300)
    opened.page.wait_for_function("zoom => cy.zoom() > zoom", arg=before["zoom"])
    assert opened.is_whole()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_hangs_over_the_edge_and_something_is_drawn(
    size: dict[str, int], scheme: str, open_page: Open
) -> None:
    opened = open_page(size, scheme)
    opened.choose_task(story.SOFTMAX)
    opened.page.click("#winner")
    assert "the fastest" in opened.details()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    ground, share = opened.page.evaluate(PIXELS, b64encode(opened.page.screenshot()).decode())
    assert (ground > 128) == (scheme == "light")
    assert share > 0.02
    assert opened.is_whole()


PIXELS = """async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const made = document.createElement("canvas");
  [made.width, made.height] = [image.width, image.height];
  const pen = made.getContext("2d");
  pen.drawImage(image, 0, 0);
  const box = document.getElementById("stage").getBoundingClientRect();
  const bytes = pen.getImageData(box.x, box.y, box.width, box.height).data;
  const reds = bytes.filter((_, at) => at % 4 === 0);
  const counts = new Map();
  for (const red of reds) counts.set(red, (counts.get(red) || 0) + 1);
  const [ground, count] = [...counts].sort((one, other) => other[1] - one[1])[0];
  return [ground, 1 - count / reds.length];
}"""
"""Of a screenshot's part that holds the graph: the red of its ground, and the share of the rest."""


def test_a_thumb_opens_and_closes_the_details_below_the_graph(open_page: Open) -> None:
    opened = open_page(PHONE)
    opened.page.select_option("#machine", story.GUESS.machine_key)
    opened.choose_task(story.SOFTMAX)
    assert not opened.page.locator("#details").is_visible()
    opened.page.touchscreen.tap(*opened.spot(experience_key(story.GUESS)))
    opened.page.locator("#details h2", has_text="first guess").wait_for()
    below = opened.page.locator("#details").bounding_box()
    assert below is not None
    assert (below["width"], below["x"]) == (PHONE["width"], 0)
    assert PHONE["height"] * 0.5 < below["y"] < PHONE["height"]
    opened.page.get_by_role("button", name="Close the details").tap()
    assert not opened.page.locator("#details").is_visible()
    assert opened.is_whole()


def test_the_page_of_nothing_says_so(open_page: Open) -> None:
    opened = open_page(name="empty")
    assert opened.nodes() == 0
    assert "Nothing is on record yet" in opened.page.inner_text("#status")
    opened.page.keyboard.press("b")
    opened.page.click("#fit")
    assert opened.is_whole()


def test_two_thousand_decisions_open_and_answer_in_time(open_page: Open) -> None:
    begin = time.monotonic()
    opened = open_page(name="crowd")
    assert opened.nodes("[branch]") == 2000
    opened.page.click("#fit")
    opened.page.fill("#words", "tile 77 ->")
    opened.page.press("#words", "Enter")
    assert opened.page.locator("#details h2").inner_text().startswith("tile ")
    assert time.monotonic() - begin < OPENS_IN_SECS
    hidden = CROWD - 2000
    assert f"{hidden} of least value are left out" in opened.page.inner_text("#status")
    assert opened.is_whole()
