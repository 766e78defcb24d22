# SPDX-License-Identifier: Apache-2.0
"""`kope report`: what tuning came to, as one page or as Markdown."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import click

from kope_tvm.errors import StorageError, UsageError

_PAGES = (".html", ".md")
_PICTURE = ".svg"


@click.command("report", short_help="Write a page on what tuning came to.")
@click.option("--work-dir", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--bench",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help="Instead: what `kope bench --json` kept.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A name that ends in .html or .md; of a bench also in .svg, for its picture.",
)
@click.option(
    "--memory", metavar="URL", help="Where decisions were carried on from; a URL or a file."
)
def command(work_dir: Path | None, bench: Path | None, output: Path, memory: str | None) -> None:
    """Write one self-contained page, or the same numbers as Markdown."""
    if (work_dir is None) == (bench is None):
        raise UsageError("kope report: give --work-dir DIR or --bench FILE.json, one of them")
    kind, kinds = output.suffix.lower(), (*_PAGES, *[_PICTURE] * (bench is not None))
    if kind not in kinds:
        raise UsageError(f"-o {output}: give a name that ends in {' or '.join(kinds)}")
    if missing := [name for name in ("jinja2", "pygal") if find_spec(name) is None]:
        raise UsageError(
            f"kope report needs {' and '.join(missing)}: pip install 'kope-tvm[report]'"
        )
    text = _of_bench(bench, kind) if bench else _of_work_dir(work_dir, memory, kind)
    _write(output, text)
    click.echo(f"{output}: {len(text.encode()) / 1024:.0f} KiB")


def _of_work_dir(work_dir: Path | None, memory: str | None, kind: str) -> str:
    from kope_tvm.memory.location import default_path
    from kope_tvm.opened_memory import open_memory
    from kope_tvm.report_page.page import html_page, markdown_page
    from kope_tvm.report_page.story import read_story

    assert work_dir is not None
    with ExitStack() as opened:
        store = opened.enter_context(open_memory(memory)).store if memory else None
        story = read_story(work_dir, store, default_path().parent)
    return markdown_page(story) if kind == ".md" else html_page(story)


def _of_bench(bench: Path, kind: str) -> str:
    from kope_tvm.report_page.bench_page import bench_html, bench_markdown, bench_picture
    from kope_tvm.report_page.bench_story import read_bench

    written = {".html": bench_html, ".md": bench_markdown, _PICTURE: bench_picture}
    return written[kind](read_bench(bench))


def _write(path: Path, text: str) -> None:
    """Replaced whole, so that a break leaves the old one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}; give -o a place to write"
        ) from error
    finally:
        part.unlink(missing_ok=True)
