"""The review page in a real Chromium: judged by keyboard, reloaded, crashed, killed, exported.

Skips where Chromium or playwright is absent, except in CI.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chromium import AA, CHROMIUM, OPTIONS, axe_violations
from support.reviews import write

from llama_index_rag_metrics import Relevance, read_qrels
from llama_index_rag_metrics.labels import write_review_page

pytestmark = pytest.mark.browser

OPEN = "#review:not([hidden])"
STORED = "#kept:text-matches('· stored$')"
GRADES = {"q1": {"a": 3, "b": 0, "c": 1}, "q2": {"a": 2, "d": 0}}
"""What the passages of POOL ask to be graded."""

POOL = [
    {
        "query_id": query_id,
        "query": f"What of {query_id}?",
        "doc_id": f"id-{doc_id}",
        "text": f"grade {grade}",
    }
    for query_id, grades in GRADES.items()
    for doc_id, grade in grades.items()
]
JUDGED = {
    query_id: Relevance({f"id-{doc_id}": grade for doc_id, grade in grades.items()})
    for query_id, grades in GRADES.items()
}
EVIL = """</script><script>alert(1)</script><img src=x onerror=alert(2)>"'`${x}&amp;\u2028\u2029"""


class Desk:
    """A page of review, as somebody sits before it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.trouble: list[str] = []
        page.set_default_timeout(10_000)
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "blob:", "data:")):
            self.trouble.append(request.url)

    def begin(self, name: str = "anna") -> "Desk":
        self.page.wait_for_selector("#start:not([hidden])")
        self.page.fill("#reviewer", name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector(OPEN)
        return self

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def stored(self) -> None:
        self.page.wait_for_selector(STORED)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    @property
    def pressed(self) -> str | None:
        """The grade of the item that is shown."""
        button = self.page.locator("#choices [aria-pressed=true]")
        return button.get_attribute("data-grade") if button.count() else None

    def grades(self) -> list[str | None]:
        """The grades of all items, in the order of the page."""
        while self.page.locator("#previous").is_enabled():
            self.page.click("#previous")
        pressed = [self.pressed]
        while self.page.locator("#next").is_enabled():
            self.page.click("#next")
            pressed.append(self.pressed)
        return pressed

    def judge_all(self) -> None:
        """Give each passage the grade that it asks for."""
        for _ in range(20):
            if self.page.locator("#done").is_visible():
                break
            self.press(self.text("#passage").removeprefix("grade "))
        self.stored()

    def export(self, path: Path) -> list[dict[str, Any]]:
        with self.page.expect_download() as downloading:
            self.press("e")
        downloading.value.save_as(path)
        assert downloading.value.suggested_filename == "judgements.jsonl"
        return records(path)


Opener = Callable[..., Desk]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def page_of(folder: Path, *lines: dict[str, Any], **options: Any) -> Path:
    return write_review_page(write(folder / "p.jsonl", *lines), folder / "p.html", **options)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_review_page(write(tmp_path / "pool.jsonl", *POOL), tmp_path / "judgements.html")


@pytest.fixture
def open_page(browser: Any, page: Path) -> Iterator[Opener]:
    """Opens a page in a tab; all tabs of a test without options of their own share a profile."""
    desks: list[Desk] = []
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900})]

    def opened(path: Path = page, **options: Any) -> "Desk":
        if options:
            contexts.append(browser.new_context(**options))
        desk = Desk(contexts[-1 if options else 0].new_page())
        desks.append(desk)
        desk.page.goto(path.as_uri())
        return desk

    yield opened
    for context in contexts:
        context.close()
    assert [trouble for desk in desks for trouble in desk.trouble] == []


class TestJudging:
    def test_set_is_judged_with_the_keyboard(self, open_page: Opener, tmp_path: Path) -> None:
        desk = open_page()
        desk.page.wait_for_selector("#reviewer:focus")
        desk.page.keyboard.type("anna")
        desk.press("Enter")
        desk.page.wait_for_selector(OPEN)
        desk.judge_all()
        assert desk.text("#count") == "5 of 5"
        assert desk.text("#done-text") == "All 5 are judged."
        exported = desk.export(tmp_path / "judgements.jsonl")
        assert {record["reviewer"] for record in exported} == {"anna"}
        assert all(record["judged_at"].endswith("Z") for record in exported)
        assert read_qrels(tmp_path / "judgements.jsonl") == JUDGED
        keys = [(record["query_id"], record["doc_id"]) for record in exported]
        assert keys == sorted(keys)

    def test_grades_by_mouse(self, open_page: Opener) -> None:
        desk = open_page().begin()
        desk.page.click(".choice[data-grade='2']")
        desk.stored()
        assert desk.text("#kept") == "Grade 2 · stored"
        desk.page.click("#previous")
        assert desk.pressed == "2"

    def test_undo(self, open_page: Opener) -> None:
        desk = open_page().begin()
        desk.press("3", "1", "ArrowLeft", "2")
        desk.stored()
        desk.press("u")
        desk.page.wait_for_selector("#kept:text('Undone · stored')")
        assert desk.grades() == ["3", "1", None, None, None]
        desk.press("u")
        desk.page.wait_for_selector("#count:text('1 of 5')")
        desk.press("u")
        desk.page.wait_for_selector("#count:text('0 of 5')")
        assert desk.grades() == [None] * 5
        assert desk.page.locator("#undo").is_disabled()

    def test_keys_that_mean_nothing(self, open_page: Opener) -> None:
        desk = open_page().begin()
        desk.press("4", "9", "x", "Alt+2", "Control+1", "Enter")
        desk.page.locator("#more summary").click()
        desk.page.locator("#keys").uncheck()
        desk.press("2", "u")
        assert desk.grades() == [None] * 5
        desk.page.locator("#keys").check()
        desk.press("2")
        desk.stored()
        assert desk.text("#count") == "1 of 5"

    def test_key_that_is_held_judges_once(self, open_page: Opener) -> None:
        desk = open_page().begin()
        for _ in range(4):  # the second and later ones are repeats
            desk.page.keyboard.down("3")
        desk.page.keyboard.up("3")
        desk.stored()
        assert desk.grades() == ["3", None, None, None, None]

    @pytest.mark.parametrize(
        ("key", "code", "shown"),
        [("&", "Digit1", "1"), ("٢", "Digit2", "2"), ("3", "Numpad3", "3")],
    )
    def test_other_layouts_of_keys(
        self, open_page: Opener, key: str, code: str, shown: str
    ) -> None:
        desk = open_page().begin()
        protocol = desk.page.context.new_cdp_session(desk.page)
        for kind in ("keyDown", "keyUp"):
            protocol.send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": code})
        desk.stored()
        assert desk.grades()[0] == shown

    def test_question_stays_in_sight(self, open_page: Opener, tmp_path: Path) -> None:
        line = {**POOL[0], "text": "a line\n" * 400}
        desk = open_page(page_of(tmp_path, line)).begin()
        ends = time.monotonic() + 60
        while desk.page.evaluate("window.scrollY") < 1000 and time.monotonic() < ends:
            desk.press("Space")
        assert desk.page.evaluate("window.scrollY") >= 1000
        box = desk.page.locator("#query").bounding_box()
        assert 0 <= box["y"] < 200
        assert desk.page.locator(".choice").first.bounding_box()["y"] > 0

    def test_name_is_needed(self, open_page: Opener) -> None:
        desk = open_page()
        desk.page.wait_for_selector("#start:not([hidden])")
        desk.page.fill("#reviewer", "  ")
        desk.press("Enter")
        assert desk.page.locator("#who-is-missing").inner_text() != ""
        assert desk.page.locator("#review").is_hidden()


class TestKeeping:
    def test_reload_goes_on(self, open_page: Opener) -> None:
        desk = open_page().begin()
        desk.press("3", "0")
        desk.stored()
        desk.page.reload()
        desk.page.wait_for_selector(OPEN)
        assert desk.text("#count") == "2 of 5"
        assert desk.grades() == ["3", "0", None, None, None]

    def test_people_at_one_browser(self, open_page: Opener) -> None:
        desk = open_page().begin("anna")
        desk.press("3")
        desk.stored()
        desk.page.locator("#more summary").click()
        desk.page.click("#leave")
        desk.begin("ben")
        assert desk.grades() == [None] * 5

    def test_pool_of_other_questions_is_apart(self, open_page: Opener, tmp_path: Path) -> None:
        changed = [{**POOL[0], "text": "another text"}, *POOL[1:]]
        desk = open_page().begin()
        desk.press("3")
        desk.stored()
        assert open_page(page_of(tmp_path, *changed)).begin().grades() == [None] * 5

    def test_pool_in_another_order_is_the_same(self, open_page: Opener, tmp_path: Path) -> None:
        desk = open_page().begin()
        desk.judge_all()
        again = open_page(page_of(tmp_path, *POOL[::-1])).begin()
        assert again.text("#count") == "5 of 5"
        again.export(tmp_path / "again.jsonl")
        assert read_qrels(tmp_path / "again.jsonl") == JUDGED

    def test_browser_that_keeps_none(self, open_page: Opener, page: Path, tmp_path: Path) -> None:
        # a frame without an origin of its own: IndexedDB and sessionStorage refuse it
        outer = tmp_path / "outer.html"
        outer.write_text(
            f'<iframe sandbox="allow-scripts allow-downloads" src="{page.name}" '
            'style="width: 1200px; height: 800px"></iframe>'
        )
        desk = open_page(outer)
        frame = desk.page.frame_locator("iframe")
        frame.locator("#reviewer").fill("anna")
        frame.locator("#reviewer").press("Enter")
        assert "keeps nothing" in frame.locator("#refused").inner_text()
        frame.locator("#passage").press("2")
        frame.locator("#kept", has_text="not stored").wait_for()
        with desk.page.expect_download() as downloading:
            frame.locator("#export").click()
        downloading.value.save_as(tmp_path / "saved.jsonl")
        assert [record["grade"] for record in records(tmp_path / "saved.jsonl")] == [2]

    def test_browser_that_stops_keeping(self, open_page: Opener, tmp_path: Path) -> None:
        desk = open_page().begin()
        desk.press("3")
        desk.stored()
        protocol = desk.page.context.new_cdp_session(desk.page)
        # as somebody clears the browser's data
        cleared = {"origin": "file://", "storageTypes": "indexeddb"}
        protocol.send("Storage.clearDataForOrigin", cleared)
        desk.press("2")
        desk.page.wait_for_selector("#kept:text-matches('not stored$')")
        desk.press("1")
        assert "keeps nothing" in desk.text("#refused")
        desk.page.wait_for_selector("#count:text('3 of 5')")
        exported = desk.export(tmp_path / "saved.jsonl")
        assert sorted(record["grade"] for record in exported) == [1, 2, 3]


class TestKilled:
    """The whole browser is killed, and opened again with the same profile."""

    @pytest.fixture
    def start(self, browser: Any, tmp_path: Path, page: Path) -> Iterator[Callable[[], Any]]:
        from playwright.sync_api import Error

        running: list[tuple[Any, Any]] = []
        profile = tmp_path / "profile"

        def started() -> tuple[Desk, subprocess.Popen[bytes]]:
            port = profile / "DevToolsActivePort"
            port.unlink(missing_ok=True)
            own = [f"--user-data-dir={profile}", "--remote-debugging-port=0", "--headless=new"]
            process = subprocess.Popen(
                [str(CHROMIUM), *OPTIONS, *own, page.as_uri()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            ends = time.monotonic() + 60
            while not (port.exists() and port.read_text()) and time.monotonic() < ends:
                time.sleep(0.05)
            address = f"http://127.0.0.1:{port.read_text().split()[0]}"
            connected = browser.browser_type.connect_over_cdp(address)
            running.append((process, connected))
            (tab,) = connected.contexts[0].pages
            return Desk(tab), process

        yield started
        for process, connected in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            try:
                connected.close()
            except Error:
                continue  # it went with its browser

    @pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
    def test_grades_that_were_shown_as_stored_are_not_lost(self, start: Callable[[], Any]) -> None:
        shown: list[str | None] = []
        for keys in (["3"], ["0", "1"], ["2"]):
            desk, process = start()
            desk.begin()
            assert desk.grades()[: len(shown)] == shown
            desk.press("f", *keys)
            desk.stored()
            shown += keys
            assert desk.text("#count") == f"{len(shown)} of 5"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        desk, _ = start()
        desk.begin()
        assert desk.grades() == ["3", "0", "1", "2", None]


class TestInAndOut:
    def test_judgements_that_are_there_are_shown(self, open_page: Opener, tmp_path: Path) -> None:
        known = {"query_id": "q1", "doc_id": "id-a", "grade": 1}
        other = {"query_id": "q9", "doc_id": "elsewhere", "grade": 2}
        judgements = write(tmp_path / "given.jsonl", known, other)
        path = write_review_page(
            tmp_path / "pool.jsonl", tmp_path / "given.html", judgements=judgements
        )
        desk = open_page(path)
        desk.page.wait_for_selector("#start:not([hidden])")
        assert desk.text("#extent") == "Passages: 5. Questions: 2."
        desk.begin()
        assert desk.text("#count") == "1 of 5"
        desk.judge_all()
        desk.export(tmp_path / "all.jsonl")
        first = Relevance({**JUDGED["q1"].grades, "id-a": 1})
        exported = read_qrels(tmp_path / "all.jsonl")
        assert exported == {**JUDGED, "q1": first, "q9": Relevance({"elsewhere": 2})}

    def test_source_of_a_passage_isnt_seen(self, open_page: Opener, tmp_path: Path) -> None:
        lines = [{**line, "system": "bm25", "rank": 1, "weight": 0.5} for line in POOL]
        desk = open_page(page_of(tmp_path, *lines)).begin()
        for _ in lines:
            seen = desk.text("body")
            assert "id-" not in seen
            assert "bm25" not in seen
            desk.press("ArrowRight")
        data = desk.text("#data-review")
        assert "bm25" not in data
        assert "weight" not in data
        desk.judge_all()
        desk.export(tmp_path / "out.jsonl")
        assert "bm25" not in (tmp_path / "out.jsonl").read_text()


class TestSight:
    def test_hostile_texts_are_texts(self, open_page: Opener, tmp_path: Path) -> None:
        fields = {name: f"{name} {EVIL}" for name in POOL[0]}
        rubric = tmp_path / "rubric.txt"
        rubric.write_text(f"{EVIL}\n1: {EVIL}\n0: {EVIL}\n".replace("\u2028\u2029", ""))
        dialogs: list[str] = []
        desk = open_page(page_of(tmp_path, fields, rubric=rubric))
        desk.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        desk.begin(EVIL)
        assert desk.page.locator("#query").text_content() == fields["query"]
        assert desk.page.locator("#passage").text_content() == fields["text"]
        assert desk.page.locator("#intro").text_content() == EVIL.replace("\u2028\u2029", "")
        assert desk.page.locator("#me").text_content() == EVIL.strip()
        desk.press("1")
        desk.stored()
        assert desk.page.locator("img").count() == 0
        (judged,) = desk.export(tmp_path / "out.jsonl")
        assert (judged["query_id"], judged["doc_id"]) == (fields["query_id"], fields["doc_id"])
        assert (judged["grade"], judged["reviewer"]) == (1, EVIL.strip())
        assert dialogs == []

    @pytest.mark.parametrize("width", [375, 821, 1280])
    def test_page_never_scrolls_sideways(
        self, open_page: Opener, tmp_path: Path, width: int
    ) -> None:
        line = {**POOL[0], "query": "Why" + "y" * 300, "text": "a" * 900}
        path = page_of(tmp_path, line, {**line, "doc_id": "n" * 300})
        desk = open_page(path, viewport={"width": width, "height": 700})
        sideways = "document.documentElement.scrollWidth"
        desk.page.wait_for_selector("#start:not([hidden])")
        assert desk.page.evaluate(sideways) <= width
        desk.begin("n" * 100)
        desk.page.locator("#more summary").click()
        for _ in range(2):
            assert desk.page.evaluate(sideways) <= width
            assert all(button.is_visible() for button in desk.page.locator(".choice").all())
            desk.press("ArrowRight")

    def test_grades_are_in_reach_on_a_phone(self, open_page: Opener, tmp_path: Path) -> None:
        line = {**POOL[0], "text": "a line\n" * 400}
        path = page_of(tmp_path, line)
        desk = open_page(path, viewport={"width": 375, "height": 700}).begin()
        for button in desk.page.locator(".choice").all():
            box = button.bounding_box()
            assert 350 < box["y"] < 700 - box["height"]
            assert box["height"] >= 40

    def test_scripts_of_both_directions(self, open_page: Opener, tmp_path: Path) -> None:
        texts = {"he": "שלום עולם", "zh": "哪一顆衛星有水的噴流？"}
        lines = [
            {"query_id": key, "query": text, "doc_id": "d", "text": text}
            for key, text in texts.items()
        ]
        desk = open_page(page_of(tmp_path, *lines)).begin()
        seen = {}
        for _ in lines:
            directions = [
                desk.page.locator(name).evaluate("place => getComputedStyle(place).direction")
                for name in ("#query", "#passage")
            ]
            seen[desk.text("#passage")] = directions
            desk.press("ArrowRight")
        assert seen == {texts["he"]: ["rtl", "rtl"], texts["zh"]: ["ltr", "ltr"]}

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [375, 1280])
    def test_axe_finds_nothing(self, open_page: Opener, scheme: str, width: int) -> None:
        desk = open_page(
            bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 800}
        )
        rules = [*AA, "best-practice"]
        desk.page.wait_for_selector("#start:not([hidden])")
        assert axe_violations(desk.page, rules) == []
        desk.begin()
        desk.page.locator("#more summary").click()
        desk.press("3", "1", "ArrowLeft", "ArrowLeft")
        desk.stored()
        assert axe_violations(desk.page, rules) == []
        desk.press("f")
        desk.judge_all()
        assert axe_violations(desk.page, rules) == []
        shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        assert (max(desk.page.evaluate(shade)) < 60) == (scheme == "dark")

    def test_page_says_that_it_needs_scripts(self, browser: Any, page: Path) -> None:
        context = browser.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.goto(page.as_uri())
        assert tab.get_by_text("This page needs JavaScript").is_visible()
        context.close()
