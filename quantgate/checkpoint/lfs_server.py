"""Which LFS server holds the files of a checkout, and with which token it may be asked.

Without git: the checkout's `.git/config` names the remote, and on GitHub Actions the job's own
variables do where there is no `.git`. `.lfsconfig` is a file of the repository, so in a pull
request its author chooses what it says: it counts only where it stays on the remote's own host,
and a token is bound to the address that it was given for, whatever any file says.
"""

from __future__ import annotations

import base64
import configparser
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from huggingface_hub import HfApi
from huggingface_hub.utils import build_hf_headers

from quantgate.checkpoint.lfs_mode import Lfs

if TYPE_CHECKING:
    from collections.abc import Mapping

GITHUB: Final = "https://github.com"
GITLAB: Final = "https://gitlab.com"
HUB: Final = "https://huggingface.co"
_SSH_ONLY = {"hf.co": "huggingface.co", "ssh.github.com": "github.com"}

MAX_CONFIG: Final = 1_000_000
"""Bytes of a git configuration file that are read."""

_SCP = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)([^\s]+)", re.ASCII)


class NoServerError(Exception):
    """Nothing is asked; the message says why and continues "the file itself is not here: "."""


@dataclass(frozen=True, slots=True)
class LfsServer:
    """An LFS server: its address, as in `lfs.url`, and the Authorization for its origin."""

    url: str
    authorization: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """For messages."""
        return urlsplit(self.url).netloc


def find_server(folder: Path, mode: Lfs, environ: Mapping[str, str] = os.environ) -> LfsServer:
    """The LFS server of the checkout that a folder lies in.

    As Git LFS looks for it (docs/api/server-discovery.md), less what only a user's own
    configuration can say: `lfs.url`, `remote.NAME.lfsurl`, `.lfsconfig`, the remote's address.

    Raises:
        NoServerError: There is none, or none that may be asked in this mode.
    """
    root = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), None)
    config = _parse(_git_folder(root / ".git") / "config") if root else None
    own, address = _configured(config) if config else ("", "")
    if not address:
        address = _of_job(folder, environ)
    if not address and not own:
        raise NoServerError("there is no checkout with a remote around it")
    url = own or f"{address.removesuffix('.git')}.git/info/lfs"
    if not own and root and (named := _named_by_repository(root)):
        if _origin(named) == _origin(url):
            url = named
        elif mode is not Lfs.ALWAYS:
            raise NoServerError(
                f".lfsconfig names {_origin(named)}, which is not the host of the remote "
                f"({_origin(url)}), and is not asked"
            )
        else:
            url = named
    origin = _origin(url)
    if mode is not Lfs.ALWAYS and origin not in _known(environ):
        raise NoServerError(f"{origin or 'its server'} is not asked, unless with lfs=always")
    return LfsServer(_bare(url), authorization(origin, environ) or _written_in(url))


def authorization(origin: str, environ: Mapping[str, str]) -> str:
    """The Authorization for an address such as `https://github.com`; empty if there is none."""
    if origin == _github(environ) and (token := environ.get("GITHUB_TOKEN", "")):
        return _basic("x-access-token", token)
    if origin in {HUB, _origin(str(HfApi().endpoint))}:
        return str(build_hf_headers().get("authorization", ""))
    ci = _origin(environ.get("CI_SERVER_URL", ""))
    if origin in {GITLAB, ci} and (token := environ.get("GITLAB_TOKEN", "")):
        return _basic("oauth2", token)
    if origin and origin == ci and (token := environ.get("CI_JOB_TOKEN", "")):
        return _basic("gitlab-ci-token", token)
    return ""


def origin_of(url: str) -> str:
    """Scheme, host and port of an address without user and password; empty if it is none."""
    return _origin(url)


def _known(environ: Mapping[str, str]) -> set[str]:
    named = (_github(environ), environ.get("CI_SERVER_URL", ""), str(HfApi().endpoint))
    return {GITHUB, GITLAB, HUB, *filter(None, map(_origin, named))}


def _github(environ: Mapping[str, str]) -> str:
    return _origin(environ.get("GITHUB_SERVER_URL") or GITHUB)


def _of_job(folder: Path, environ: Mapping[str, str]) -> str:
    """The repository that the job runs for: a checkout without git on the runner has no `.git`."""
    workspace, repository = environ.get("GITHUB_WORKSPACE"), environ.get("GITHUB_REPOSITORY")
    if environ.get("GITHUB_ACTIONS") != "true" or not workspace or not repository:
        return ""
    if not folder.is_relative_to(Path(workspace).resolve()):
        return ""
    return f"{_github(environ)}/{repository}"


def _git_folder(path: Path) -> Path:
    """The folder with the configuration: `.git`, or what the file `.git` names.

    It is a file in a worktree and in a submodule (gitrepository-layout).
    """
    link = _text(path)
    if not link.startswith("gitdir:"):
        return path
    folder = path.parent / link.removeprefix("gitdir:").strip()
    common = _text(folder / "commondir").strip()
    return folder / common if common else folder


def _text(path: Path) -> str:
    """A small text file; empty if it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as stream:
            return stream.read(MAX_CONFIG).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _parse(path: Path) -> configparser.ConfigParser | None:
    """A file of git's configuration, None if it makes no sense."""
    parser = configparser.ConfigParser(
        delimiters=("=",), strict=False, allow_no_value=True, interpolation=None
    )
    # git indents keys, which would continue the line before here.
    text = "\n".join(line.strip() for line in _text(path).splitlines())
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return parser


def _configured(config: configparser.ConfigParser) -> tuple[str, str]:
    """The LFS server that the user configured, and the address of the remote; empty if none.

    The remote is origin, or else the only one.
    """
    remotes = [s for s in config.sections() if s.startswith('remote "')]
    remote = 'remote "origin"' if 'remote "origin"' in remotes or len(remotes) != 1 else remotes[0]
    own = config.get("lfs", "url", fallback="") or config.get(remote, "lfsurl", fallback="")
    return _https(own), _https(config.get(remote, "url", fallback=""))


def _named_by_repository(root: Path) -> str:
    """What `.lfsconfig` says; a link there could be any file of this machine, and is not read."""
    path = root / ".lfsconfig"
    config = None if path.is_symlink() else _parse(path)
    return _https(config.get("lfs", "url", fallback="")) if config else ""


def _https(address: str | None) -> str:
    """An address of a remote as HTTP(S), empty if it has none: a folder, for instance."""
    address = (address or "").strip().strip('"').rstrip("/")
    scp = _SCP.fullmatch(address)
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme in {"http", "https"} and host:
        return address if _origin(address) else ""
    if parts.scheme in {"ssh", "git", "git+ssh"} and host:
        return f"https://{_SSH_ONLY.get(host, host)}{parts.path}"
    if scp and len(scp[1]) > 1:  # C:/folder is none
        return f"https://{_SSH_ONLY.get(scp[1], scp[1])}/{scp[2].lstrip('/')}"
    return ""


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable():
        return ""
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in {None, usual} else "")


def _bare(url: str) -> str:
    return f"{_origin(url)}{urlsplit(url).path}".rstrip("/")


def _written_in(url: str) -> str:
    """User and password that stand in the address of the remote, as some CI systems write it."""
    parts = urlsplit(url)
    if not parts.password:
        return ""
    return _basic(unquote(parts.username or ""), unquote(parts.password))


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
