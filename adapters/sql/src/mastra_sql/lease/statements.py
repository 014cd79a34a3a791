"""The statements of leases: each decides in one step, by the database's clock (6.4, 8.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from mastra_sql.bus.dialect import BusDialect, number, words
from mastra_sql.executor import Step
from mastra_sql.lease.tables import LeaseTables
from mastra_sql.statement import Statement, StatementCache

__all__ = ("LeaseStatements",)

#: A fence outlives its lease by so long (L4).
_KEPT_MS: Final = 7 * 24 * 3600 * 1000


class LeaseStatements:
    """Steps for one dialect; names are given as the database keeps them."""

    def __init__(self, dialect: BusDialect, tables: LeaseTables) -> None:
        self.dialect = dialect
        self.tables = tables
        self._cache = StatementCache(dialect.compiler)

    # -- terms -----------------------------------------------------------------------------

    def acquire(
        self, key: str, owner: str, ttl_ms: int, holder: str, *, lock_delay_ms: int
    ) -> Step:
        """Take a free, expired or own key; no row if somebody else has it (L3, L13)."""

        def build() -> Any:
            leases = self.tables.leases
            goes_on = and_(
                self._is_live(),
                leases.c.owner == words("owner"),
                or_(leases.c.holder.is_(None), leases.c.holder == words("holder")),
            )
            free = or_(
                leases.c.owner.is_(None),
                leases.c.owner == words("owner"),
                self._expired_since(number("lock_delay_ms")),
            )
            return (
                self.dialect.insert(leases)
                .values(
                    key=words("key"),
                    owner=words("owner"),
                    holder=words("holder"),
                    fence=self.dialect.now_us(),
                    origin=literal_column("'acquired'"),
                    expiresAt=self._expiry(),
                    updatedAt=self.dialect.now(),
                    bootId=self._boot(),
                )
                .on_conflict_do_update(
                    index_elements=[leases.c.key],
                    set_={
                        "owner": words("owner"),
                        "holder": words("holder"),
                        "fence": case((goes_on, leases.c.fence), else_=self._next_fence()),
                        "origin": case(
                            (goes_on, leases.c.origin), else_=literal_column("'acquired'")
                        ),
                        "expiresAt": self._expiry(),
                        "updatedAt": self.dialect.now(),
                        "bootId": self._boot(),
                    },
                    where=free,
                )
                .returning(*self._granted())
            )

        values = {
            "key": key,
            "owner": owner,
            "holder": holder,
            "ttl_ms": ttl_ms,
            "lock_delay_ms": lock_delay_ms,
        }
        return Step.of(self._shape("acquire", build), values)

    def renew(
        self, key: str, owner: str, ttl_ms: int, *, fence: int | None, holder: str | None
    ) -> Step:
        """Set the remaining time of the caller's live term."""

        def build() -> Any:
            return (
                update(self.tables.leases)
                .where(*self._own())
                .values(expiresAt=self._expiry(), updatedAt=self.dialect.now())
                .returning(*self._granted())
            )

        values = {"key": key, "owner": owner, "fence": fence, "holder": holder, "ttl_ms": ttl_ms}
        return Step.of(self._shape("renew", build), values)

    def release(self, key: str, owner: str, *, fence: int | None, holder: str | None) -> Step:
        """End the caller's live term; the row stays, since its fence must."""

        def build() -> Any:
            return (
                update(self.tables.leases)
                .where(*self._own())
                .values(owner=null(), holder=null(), updatedAt=self.dialect.now())
                .returning(*self._granted())
            )

        values = {"key": key, "owner": owner, "fence": fence, "holder": holder}
        return Step.of(self._shape("release", build), values)

    def transfer(
        self,
        key: str,
        from_owner: str,
        to_owner: str,
        ttl_ms: int,
        *,
        fence: int | None,
        holder: str | None,
        to_holder: str | None,
    ) -> Step:
        """Hand the caller's live term on; to oneself it is a renewal (L6)."""

        def build() -> Any:
            leases = self.tables.leases
            to_holder_value = words("to_holder")
            to_self = and_(
                words("to_owner") == leases.c.owner,
                or_(to_holder_value.is_(None), to_holder_value == leases.c.holder),
            )
            return (
                update(leases)
                .where(*self._own())
                .values(
                    owner=words("to_owner"),
                    holder=case((to_self, leases.c.holder), else_=to_holder_value),
                    fence=case((to_self, leases.c.fence), else_=self._next_fence()),
                    origin=case((to_self, leases.c.origin), else_=literal_column("'transferred'")),
                    expiresAt=self._expiry(),
                    updatedAt=self.dialect.now(),
                )
                .returning(*self._granted())
            )

        values = {
            "key": key,
            "owner": from_owner,
            "to_owner": to_owner,
            "ttl_ms": ttl_ms,
            "fence": fence,
            "holder": holder,
            "to_holder": to_holder,
        }
        return Step.of(self._shape("transfer", build), values)

    def look(self, key: str) -> Step:
        """The row of a key as it is: owner, holder, fence, origin, time left, whether it lives."""

        def build() -> Any:
            leases = self.tables.leases
            lives = case((self._is_live(), literal_column("1")), else_=literal_column("0"))
            return select(
                leases.c.owner,
                leases.c.holder,
                leases.c.fence,
                leases.c.origin,
                self.dialect.left_ms(leases.c.expiresAt).label("leftMs"),
                lives.label("lives"),
            ).where(leases.c.key == words("key"))

        return Step.of(self._shape("look", build), {"key": key})

    # -- fences ----------------------------------------------------------------------------

    def newest_fence(self, key: str) -> Step:
        """The newest fence that was issued for a key or seen with a write; NULL without one."""

        def build() -> Any:
            leases, fences = self.tables.leases, self.tables.fences
            issued = select(leases.c.fence).where(leases.c.key == words("key")).scalar_subquery()
            seen = select(fences.c.token).where(fences.c.key == words("key")).scalar_subquery()
            newest: ColumnElement[Any] = self.dialect.larger(
                func.coalesce(issued, literal_column("0")),
                func.coalesce(seen, literal_column("0")),
            )
            return select(newest.label("newest"))

        return Step.of(self._shape("newest_fence", build), {"key": key})

    def see_fence(self, key: str, token: int) -> Step:
        """Remember that a write carried this fence (L9)."""

        def build() -> Any:
            fences = self.tables.fences
            insert = self.dialect.insert(fences).values(
                key=words("key"), token=number("token"), updatedAt=self.dialect.now()
            )
            return insert.on_conflict_do_update(
                index_elements=[fences.c.key],
                set_={
                    "token": self.dialect.larger(fences.c.token, insert.excluded.token),
                    "updatedAt": self.dialect.now(),
                },
            )

        return Step.of(self._shape("see_fence", build), {"key": key, "token": token})

    def forget_old(self) -> list[Step]:
        """Rows that neither a lease nor a fence needs any more."""
        oldest = self.dialect.later(literal_column(f"-{_KEPT_MS}"))

        def leases() -> Any:
            table = self.tables.leases
            return delete(table).where(table.c.updatedAt < oldest, ~self._is_live())

        def fences() -> Any:
            table = self.tables.fences
            return delete(table).where(table.c.updatedAt < oldest)

        return [
            Step(self._shape("forget_leases", leases)),
            Step(self._shape("forget_fences", fences)),
        ]

    # -- parts -----------------------------------------------------------------------------

    def _shape(self, name: str, build: Callable[[], Any]) -> Statement:
        return self._cache.get(name, build, name=f"lease.{name}")

    def _expiry(self) -> ColumnElement[Any]:
        return self.dialect.later(number("ttl_ms"))

    def _next_fence(self) -> ColumnElement[Any]:
        """L4: above all that were issued, also if that was forgotten."""
        fence = self.tables.leases.c.fence + literal_column("1")
        return self.dialect.larger(fence, self.dialect.now_us())

    def _boot(self) -> ColumnElement[Any]:
        found = self.dialect.incarnation()
        return null() if found is None else found

    def _is_live(self) -> ColumnElement[bool]:
        leases = self.tables.leases
        return and_(
            leases.c.owner.is_not(None),
            leases.c.expiresAt > self.dialect.now(),
            *self._same_boot(),
        )

    def _expired_since(self, delay_ms: ColumnElement[Any]) -> ColumnElement[bool]:
        """Its time was over so long ago; a machine that was started anew has no old holders."""
        leases = self.tables.leases
        over = leases.c.expiresAt <= self.dialect.later(-delay_ms)
        return or_(over, *(~same for same in self._same_boot()))

    def _same_boot(self) -> list[ColumnElement[bool]]:
        found = self.dialect.incarnation()
        if found is None:
            return []
        return [self.tables.leases.c.bootId.is_not_distinct_from(found)]

    def _own(self) -> list[ColumnElement[bool]]:
        leases = self.tables.leases
        holder = words("holder")
        fence = number("fence")
        return [
            leases.c.key == words("key"),
            leases.c.owner == words("owner"),
            self._is_live(),
            or_(holder.is_(None), leases.c.holder.is_(None), leases.c.holder == holder),
            or_(fence.is_(None), leases.c.fence == fence),
        ]

    def _granted(self) -> list[ColumnElement[Any]]:
        leases = self.tables.leases
        return [
            leases.c.owner,
            leases.c.fence,
            self.dialect.epoch_ms(leases.c.expiresAt).label("expiresAtMs"),
        ]
