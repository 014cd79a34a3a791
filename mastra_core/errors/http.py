"""Errors of the HTTP server that have no other home."""

from __future__ import annotations

from mastra_core.errors.base import Category, MastraError

__all__ = ("AuthenticationError", "ForbiddenError", "HttpError", "RequestError")


class HttpError(MastraError):
    """A request can't be answered as asked."""

    id = "MASTRA_SERVER_ERROR"
    domain = "MASTRA_SERVER"


class AuthenticationError(HttpError):
    """Nobody knows who is asking."""

    id = "MASTRA_SERVER_UNAUTHENTICATED"
    category: Category = "USER"
    http_status = 401


class ForbiddenError(HttpError):
    """We know who is asking, and they may not."""

    id = "MASTRA_SERVER_FORBIDDEN"
    category: Category = "USER"
    http_status = 403


class RequestError(HttpError):
    """The request itself is wrong."""

    id = "MASTRA_SERVER_BAD_REQUEST"
    category: Category = "USER"
    http_status = 400
