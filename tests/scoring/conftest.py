"""A model server to talk to."""

from tests.models.fake_server_fixture import server

__all__ = ["server"]
