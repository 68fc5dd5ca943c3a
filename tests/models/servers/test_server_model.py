"""The URL of a server: what is none is named, without the secrets that may be in it."""

from __future__ import annotations

import pytest

from multiform.errors import UsageError
from multiform.models.servers.server_model import server_root


@pytest.mark.parametrize(
    ("base_url", "named"),
    [
        ("ftp://models.org/v1", "ftp://models.org"),
        ("ftp://user:secret@models.org/v1?api-key=secret", "ftp://models.org"),
        ("localhost/v1", "localhost/v1"),
    ],
)
def test_a_url_that_is_not_http_is_named_without_its_secrets(base_url: str, named: str) -> None:
    with pytest.raises(UsageError, match="is not an http or https URL") as caught:
        server_root(base_url, [], "")
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)
