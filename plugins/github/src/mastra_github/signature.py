"""The signature that GitHub puts on a delivery (header ``X-Hub-Signature-256``)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

__all__ = ("sign", "verify_signature")

_PREFIX = "sha256="


def sign(body: bytes, secret: str) -> str:
    """The header's value for a body."""
    return _PREFIX + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def verify_signature(body: bytes, header: str | None, secrets: Iterable[str]) -> bool:
    """
    Was this body, byte for byte, signed with one of the secrets?

    All are tried, each in constant time, so that neither a signature nor which of the secrets
    is in use can be found out by measuring.
    """
    given = (header or "").encode("utf-8", "replace")
    fits = [hmac.compare_digest(sign(body, secret).encode(), given) for secret in secrets]
    return any(fits)
