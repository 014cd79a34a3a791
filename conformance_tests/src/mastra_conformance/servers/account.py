"""The account of a server that refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mastra_conformance.servers.product import Found, Product

__all__ = ("SAME_ACCOUNT", "Account", "account_for", "reachable_binary")

_NAMES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """Who a process runs as; None is who we are."""

    entry: pwd.struct_passwd | None = None

    @property
    def options(self) -> Mapping[str, object]:
        """Keyword arguments of ``subprocess``."""
        if self.entry is None:
            return {}
        return {
            "user": self.entry.pw_uid,
            "group": self.entry.pw_gid,
            "extra_groups": (),
        }

    def own(self, folder: Path) -> None:
        """Give a folder and everything in it to the account."""
        if self.entry is None:
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.entry.pw_uid, self.entry.pw_gid, follow_symlinks=False)

    def can_run(self, binary: Path) -> bool:
        """Whether the account reaches the binary; folders of root may be closed to it."""
        command: Sequence[str] = ("test", "-x", str(binary))
        done = subprocess.run(command, check=False, cwd="/", **self.options)  # type: ignore[call-overload]
        return bool(done.returncode == 0)


SAME_ACCOUNT = Account()


def account_for(product: Product) -> Account:
    """Another account than root's where the product needs it."""
    if not product.refuses_root or os.geteuid() != 0:
        return SAME_ACCOUNT
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in _NAMES:
        if name in known:
            return Account(known[name])
    raise LookupError(f"{product.name} refuses root, and there is no account {_NAMES}.")


def reachable_binary(found: Found, account: Account, folder: Path) -> Path:
    """
    The binary, or a copy below ``folder`` if the account doesn't reach the original.

    The whole package is copied: programs look for their libraries beside themselves.
    """
    assert found.binary is not None
    if account is SAME_ACCOUNT or found.home is None or account.can_run(found.binary):
        return found.binary
    copy = folder / "program"
    shutil.copytree(found.home, copy, symlinks=True)
    return copy / found.binary.relative_to(found.home)
