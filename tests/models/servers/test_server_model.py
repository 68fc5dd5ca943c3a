"""The URL of a server: what is none is named, without the secrets that may be in it."""

from __future__ import annotations

import pytest

from multiform.errors import UsageError
from multiform.models import models
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


@pytest.mark.parametrize("host", ["a..b", "...", "xn--", "a" * 80 + ".org", "[::1"])
def test_a_host_that_no_connection_can_have_is_an_error(host: str) -> None:
    with pytest.raises(UsageError, match="base_url is no URL"):
        server_root(f"http://{host}/v1", [], "")


def test_addresses_and_names_in_other_letters_are_hosts() -> None:
    for host in ("[::1]", "127.0.0.1", "localhost", "bücher.example"):
        assert server_root(f"http://{host}:8000/v1", [], "").port == 8000


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
@pytest.mark.parametrize("name", ["a?b", "a#b", "a\nb", "@org/a b=[1]"])
def test_the_name_of_a_model_is_a_part_of_the_path(kind: str, name: str) -> None:
    model = models.get(kind)(model=name, base_url="http://127.0.0.1:9/v1?api-version=1")
    url = model._url(model.models_path())  # type: ignore[attr-defined]
    assert url.path == f"/v1/models/{name}"
    assert url.query == b"api-version=1"
