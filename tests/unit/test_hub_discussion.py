"""The comment on a Hub pull request, through the real client over HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from huggingface_hub import HfApi

from quantgate import cli
from quantgate.hub_discussion import Discussion, DiscussionError, comment_on
from quantgate.report.as_json import to_json_text
from quantgate.report.markdown import MARKER
from tests.support import report_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = Discussion("org/model", 3)
AT = "/api/models/org/model/discussions/3"


class Hub:
    """One discussion of one model, as huggingface_hub asks for it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.may_write = True
        self.writes: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                answers = {AT: hub.discussion, "/api/whoami-v2": lambda: {"name": "gate"}}
                self.answer(200, answers[path]()) if path in answers else self.answer(404, {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hub.writes.append(self.path)
                if not hub.may_write:
                    self.answer(403, {"error": "Forbidden: no write access"})
                elif self.path == f"{AT}/comment":
                    self.answer(200, {"newMessage": hub.add("gate", body["comment"])})
                else:
                    event = next(e for e in hub.events if f"/comment/{e['id']}/edit" in self.path)
                    event["data"]["latest"]["raw"] = body["content"]
                    self.answer(200, {"updatedComment": event})

            def answer(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def add(self, author: str, text: str, *, hidden: bool = False) -> dict[str, Any]:
        """A comment that is there."""
        event = {
            "id": f"{len(self.events):024x}",
            "type": "comment",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "author": {"name": author},
            "data": {"edited": False, "hidden": hidden, "latest": {"raw": text}},
        }
        self.events.append(event)
        return event

    def discussion(self) -> dict[str, Any]:
        """The answer to what stands in it."""
        return {
            "title": "Quantize",
            "num": 3,
            "author": {"name": "someone"},
            "createdAt": "2026-01-01T00:00:00.000Z",
            "status": "open",
            "repo": {"name": "org/model", "type": "model"},
            "isPullRequest": False,
            "events": self.events,
        }

    def texts(self) -> list[str]:
        """The comments, oldest first."""
        return [e["data"]["latest"]["raw"] for e in self.events]


@pytest.fixture
def hub() -> Iterator[Hub]:
    """The server, stopped afterwards."""
    hub = Hub()
    threading.Thread(target=hub.http.serve_forever, args=(0.02,), daemon=True).start()
    yield hub
    hub.http.shutdown()
    hub.http.server_close()


def write(hub: Hub, text: str, *, create: bool = True) -> str:
    """Bring the comment up to date."""
    api = HfApi(endpoint=hub.url, token="hf_secret")
    return comment_on(PLACE, f"{MARKER}\n{text}", create=create, api=api)


def test_one_comment_is_kept_up_to_date(hub: Hub):
    """Written, left alone, changed in place; never a second one."""
    assert write(hub, "red") == "created"
    assert write(hub, "red") == "unchanged"
    assert write(hub, "green", create=False) == "updated"
    assert hub.texts() == [f"{MARKER}\ngreen"]
    assert hub.writes == [f"{AT}/comment", f"{AT}/comment/{0:024x}/edit"]


def test_nothing_is_said_where_nothing_is_wrong(hub: Hub):
    """The first comment is written only if it is asked for."""
    assert write(hub, "green", create=False) == "none"
    assert hub.writes == []


def test_only_our_own_comment_is_changed(hub: Hub):
    """Not one that a stranger wrote with our marker, not a hidden one, not one that quotes it."""
    hub.add("stranger", f"{MARKER}\nall is well")
    hub.add("gate", f"{MARKER}\nhidden", hidden=True)
    hub.add("gate", f"see {MARKER}")
    assert write(hub, "red") == "created"
    assert write(hub, "green") == "updated"
    assert hub.texts()[0].endswith("all is well")
    assert hub.texts()[3] == f"{MARKER}\ngreen"


def test_a_refusal_is_one_sentence_without_the_token(hub: Hub):
    """It says what the Hub said."""
    hub.may_write = False
    with pytest.raises(DiscussionError) as caught:
        write(hub, "red")
    assert str(caught.value).startswith("The Hub did not take the comment on org/model#3: ")
    assert "403" in str(caught.value)
    assert "hf_secret" not in str(caught.value)


def test_a_discussion_that_is_not_there_is_told(hub: Hub):
    """So is an answer that is none."""
    api = HfApi(endpoint=hub.url, token="hf_secret")
    with pytest.raises(DiscussionError, match="404"):
        comment_on(Discussion("org/other", 3), MARKER, api=api)
    hub.discussion = lambda: {"title": "x"}
    with pytest.raises(DiscussionError):
        comment_on(PLACE, MARKER, api=api)


def test_the_command_line_writes_the_report(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """`quantgate report --hub-discussion`: the exit code is the report's, whatever the Hub says."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    file = tmp_path / "report.json"
    command = ["report", str(file), "--hub-discussion", "org/model#3"]

    file.write_text(to_json_text(report_samples.passing()))
    assert cli.main(command) == 0
    assert hub.texts() == []

    file.write_text(to_json_text(report_samples.several_findings()))
    assert cli.main(command) == 1
    (red,) = hub.texts()
    assert red.startswith(f"{MARKER}\n### ❌")

    file.write_text(to_json_text(report_samples.passing()))
    assert cli.main(command) == 0
    (green,) = hub.texts()
    assert green.startswith(f"{MARKER}\n### ✅")
    assert "comment on org/model#3: updated" in capsys.readouterr().err

    hub.may_write = False
    file.write_text(to_json_text(report_samples.several_findings()))
    assert cli.main(command) == 1
    assert "The Hub did not take the comment" in capsys.readouterr().err
    capsys.readouterr()
    assert cli.main(["report", str(file), "--hub-discussion", "model"]) == 2
    assert capsys.readouterr().out == ""  # wrong usage is told before any work


@pytest.mark.parametrize("text", ["org/model", "model#3", "org/model#0", "org/model#3x", "a/b/c#1"])
def test_what_is_no_discussion_is_refused(text: str):
    """The form is `org/model#3`."""
    with pytest.raises(ValueError, match="is not a discussion"):
        Discussion.parse(text)
    assert str(Discussion.parse("org/model#3")) == "org/model#3"
