"""Which LFS server a checkout names, whether it may be asked, and which token it gets."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.lfs_server import NoServerError, authorization, find_server
from tests.conftest import TOKENS
from tests.support.lfs_server import write_config

BASIC = "Basic " + base64.b64encode(b"x-access-token:secret").decode()


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://github.com/o/r", "https://github.com/o/r.git/info/lfs"),
        ("https://github.com/o/r.git", "https://github.com/o/r.git/info/lfs"),
        ("git@github.com:o/r.git", "https://github.com/o/r.git/info/lfs"),
        ("ssh://git@gitlab.com/o/sub/r.git", "https://gitlab.com/o/sub/r.git/info/lfs"),
        ("git@hf.co:o/r", "https://huggingface.co/o/r.git/info/lfs"),
        ("https://u:p@github.com/o/r/", "https://github.com/o/r.git/info/lfs"),
    ],
)
@pytest.mark.usefixtures("clean")
def test_remotes(tmp_path: Path, url: str, wanted: str) -> None:
    """The address of the LFS server follows from the remote's, however that is written."""
    write_config(tmp_path, url)
    assert find_server(tmp_path / "a" / "b", Lfs.AUTO, {}).url == wanted


@pytest.mark.parametrize(
    "url", ["/srv/git/r.git", "file:///srv/r", "C:/r", "http://github.com/o/r", "https://[", ""]
)
@pytest.mark.usefixtures("clean")
def test_remotes_that_are_not_asked(tmp_path: Path, url: str) -> None:
    """Folders, unencrypted addresses and nonsense are no known server."""
    write_config(tmp_path, url)
    with pytest.raises(NoServerError):
        find_server(tmp_path, Lfs.AUTO, {"GITHUB_TOKEN": "secret"})


@pytest.mark.usefixtures("clean")
def test_unknown_hosts_need_a_word(tmp_path: Path) -> None:
    """Another host is asked with always only, and gets no token even then."""
    write_config(tmp_path, "https://git.example/o/r")
    environ = dict.fromkeys(TOKENS[1:4], "secret")
    with pytest.raises(NoServerError, match=r"https://git\.example is not asked"):
        find_server(tmp_path, Lfs.AUTO, environ)
    found = find_server(tmp_path, Lfs.ALWAYS, environ)
    assert (found.host, found.authorization) == ("git.example", "")


@pytest.mark.usefixtures("clean")
def test_lfsconfig_cannot_lead_elsewhere(tmp_path: Path) -> None:
    """A file of the pull request chooses no other host; on the remote's own it may choose."""
    write_config(tmp_path, "https://github.com/o/r")
    config = tmp_path / ".lfsconfig"
    config.write_text("[lfs]\n\turl = https://evil.example/lfs\n")
    environ = {"GITHUB_TOKEN": "secret"}
    with pytest.raises(NoServerError, match=re.escape(".lfsconfig names https://evil.example")):
        find_server(tmp_path, Lfs.AUTO, environ)
    assert find_server(tmp_path, Lfs.ALWAYS, environ).authorization == ""
    for trick in ("https://github.com@evil.example/lfs", "https://github.com:444/lfs"):
        config.write_text(f"[lfs]\n\turl = {trick}\n")
        with pytest.raises(NoServerError):
            find_server(tmp_path, Lfs.AUTO, environ)
    config.write_text("[lfs]\n\turl = https://github.com/o/other.git/info/lfs\n")
    found = find_server(tmp_path, Lfs.AUTO, environ)
    assert found.url == "https://github.com/o/other.git/info/lfs"
    config.write_text("no section = 1\n[lfs\n")
    assert find_server(tmp_path, Lfs.AUTO, environ).url.startswith("https://github.com/o/r.git")


@pytest.mark.usefixtures("clean")
def test_the_users_own_configuration_wins(tmp_path: Path) -> None:
    """`lfs.url` of the checkout's configuration is the user's, and comes first."""
    more = "[lfs]\n\turl = https://gitlab.com/a/b.git/info/lfs\n"
    write_config(tmp_path, "https://github.com/o/r", more)
    found = find_server(tmp_path, Lfs.AUTO, {"GITLAB_TOKEN": "t"})
    assert found.url == "https://gitlab.com/a/b.git/info/lfs"
    assert found.authorization == "Basic " + base64.b64encode(b"oauth2:t").decode()


@pytest.mark.usefixtures("clean")
def test_worktrees(tmp_path: Path) -> None:
    """In a worktree `.git` is a file that names the folder with the configuration."""
    write_config(tmp_path / "main", "https://github.com/o/r")
    inner = tmp_path / "main" / ".git" / "worktrees" / "w"
    inner.mkdir(parents=True)
    (inner / "commondir").write_text("../..\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {inner}\n")
    assert find_server(tmp_path / "w", Lfs.AUTO, {}).host == "github.com"


@pytest.mark.usefixtures("clean")
def test_a_job_without_git(tmp_path: Path) -> None:
    """On GitHub Actions the job's variables name the repository where no `.git` does."""
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://ghe.example",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_WORKSPACE": str(tmp_path / "w"),
        "GITHUB_TOKEN": "secret",
    }
    found = find_server((tmp_path / "w" / "m").resolve(), Lfs.AUTO, environ)
    assert found.url == "https://ghe.example/o/r.git/info/lfs"
    assert found.authorization == BASIC
    assert authorization("https://github.com", environ) == ""
    with pytest.raises(NoServerError, match="no checkout"):
        find_server(tmp_path.resolve(), Lfs.AUTO, environ)


@pytest.mark.usefixtures("clean")
def test_the_hubs_token_is_the_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_TOKEN goes to the Hub and not to GitHub, and GITHUB_TOKEN not to the Hub."""
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    environ = {"GITHUB_TOKEN": "secret"}
    assert authorization("https://huggingface.co", environ) == "Bearer hf_x"
    assert authorization("https://github.com", environ) == BASIC
    assert "hf_x" not in repr(find_server_of(tmp_path, "https://huggingface.co/o/r"))


def find_server_of(folder: Path, url: str) -> object:
    """The server of a checkout whose remote is at this address."""
    write_config(folder, url)
    return find_server(folder, Lfs.AUTO, {})
