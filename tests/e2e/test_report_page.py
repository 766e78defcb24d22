# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: by day and night, on a phone, by keyboard, without a network."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, ViewportSize

from kope_tvm.cli import main
from report_story import COMMAND, make_work_dir

pytestmark = pytest.mark.e2e

Scheme = Literal["light", "dark"]

DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
QUICK = sorted((Path(__file__).parents[2] / "docs" / "measured").glob("quick-*.json"))[-1]
_COUNT_COLOUR = """async ([url, colour]) => {
  const image = new Image(); image.src = url; await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width; canvas.height = image.height;
  const paper = canvas.getContext("2d"); paper.drawImage(image, 0, 0);
  const dots = paper.getImageData(0, 0, image.width, image.height).data;
  let found = 0;
  for (let i = 0; i < dots.length; i += 4)
    if (colour.every((value, k) => dots[i + k] === value)) found++;
  return found / (image.width * image.height);
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    work_dir = make_work_dir(folder / "work")
    return written(folder / "report.html", "--work-dir", str(work_dir))


def written(path: Path, *options: str) -> Path:
    done = CliRunner().invoke(main, ["report", *options, "-o", str(path)])
    assert done.exit_code == 0, done.output
    return path


def opened(browser: Browser, path: Path, size: ViewportSize, scheme: Scheme = "light") -> Page:
    """The page; any complaint of the browser, or request but for the file, fails the test."""
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto(path.as_uri())
    assert said == [path.as_uri()]
    assert page.evaluate("typeof window.pwned") == "undefined"
    return page


def share_of(page: Page, colour: tuple[int, int, int]) -> float:
    """Of the screenshot's points, those of a colour."""
    url = f"data:image/png;base64,{b64encode(page.screenshot(full_page=True)).decode()}"
    return float(page.evaluate(_COUNT_COLOUR, [url, list(colour)]))


@pytest.mark.parametrize(
    ("scheme", "paper", "curve"),
    [("light", (246, 247, 249), (29, 95, 209)), ("dark", (16, 21, 28), (127, 176, 255))],
)
def test_it_is_drawn_by_day_and_by_night(
    browser: Browser,
    report: Path,
    scheme: Scheme,
    paper: tuple[int, int, int],
    curve: tuple[int, int, int],
) -> None:
    page = opened(browser, report, DESKTOP, scheme)
    assert share_of(page, paper) > 0.2
    assert share_of(page, curve) > 0.0002


def test_it_fits_a_phone(browser: Browser, report: Path) -> None:
    page = opened(browser, report, PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14


def test_it_says_what_was_gained_and_at_what_cost(browser: Browser, report: Path) -> None:
    text = opened(browser, report, DESKTOP).locator("body").inner_text()
    for words in ("4.00x", "16.00x", "optimised only, 1 of 2", "1000", "replaced", "E_NUMERICS"):
        assert words in text
    assert "untuned stays: not proved" in text
    assert COMMAND in text


def test_the_way_to_the_best_is_open_and_the_rest_opens_by_keyboard(
    browser: Browser, report: Path
) -> None:
    page = opened(browser, report, DESKTOP)
    assert page.get_by_text("← best").first.is_visible()
    mended = page.get_by_text("keep the max")
    assert not mended.is_visible()
    page.locator("details:not([open]) > summary").first.focus()
    page.keyboard.press("Enter")
    assert mended.is_visible()


def test_a_bench_is_shown_with_its_ratios(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path / "bench.html", "--bench", str(QUICK))
    page = opened(browser, path, PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.locator("tbody tr").count() >= 12
    assert page.locator("figure svg[role=img]").count() == 1


def test_a_bench_is_a_picture_of_its_own(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path / "ratios.svg", "--bench", str(QUICK))
    page = opened(browser, path, PHONE)
    labels = page.locator("svg text").all_text_contents()
    assert "softmax:m=512,n=1024" in labels
    assert "onnxruntime" in labels


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "one of them"),
        (["--work-dir", "nowhere"], "no experience.sqlite in it"),
        (["--bench", __file__], "cannot be read as JSON"),
    ],
)
def test_a_wrong_call_says_what_was_expected(tmp_path: Path, options: list[str], said: str) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["report", *options, "-o", str(path)])
    assert (done.exit_code, path.exists()) == (2, False)
    assert said in done.output
