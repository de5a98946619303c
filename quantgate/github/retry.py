"""When a request to GitHub is made again, beyond what PyGithub decides."""

from __future__ import annotations

from typing import Any

from github import GithubRetry
from urllib3 import Retry as Default
from urllib3.exceptions import MaxRetryError, ProtocolError, ReadTimeoutError, ResponseError

TRIES = 5
MAX_WAIT = 90  # seconds


class Retry(GithubRetry):
    """Leaves a POST alone whose answer is a server error or none: it may have been done already.

    PyGithub makes it again, and a pull request would have two comments. A limit is refused before
    anything is done, so that is waited for. A question to GraphQL is a POST that does nothing.
    """

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> Any:
        """As `urllib3.Retry.increment`."""
        if method == "POST" and not (url or "").endswith("/graphql"):
            if isinstance(error, ReadTimeoutError | ProtocolError):
                raise error
            if response is not None and response.status >= 500:
                said = ResponseError.SPECIFIC_ERROR.format(status_code=response.status)
                raise MaxRetryError(_pool, url or "", ResponseError(said))
        return super().increment(method, url, response, error, _pool, _stacktrace)


def retry() -> Retry:
    """Retries of secondary limits and server errors; each wait is bounded."""
    return Retry(
        total=TRIES,
        backoff_factor=0.5,
        secondary_rate_wait=MAX_WAIT / 2,
        max_rate_limit_wait=MAX_WAIT,
        retry_after_max=MAX_WAIT,
        allowed_methods=Default.DEFAULT_ALLOWED_METHODS | {"POST", "PATCH"},
        raise_on_status=False,  # then the answer itself says what is wrong
    )
