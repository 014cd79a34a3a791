"""The bus in a SQL database, without the database's own half."""

from __future__ import annotations

from mastra_sql.bus.dialect import BusDialect
from mastra_sql.bus.driver import Appended, BusLimits, ClaimedRow, NewEvent, SqlBusDriver
from mastra_sql.bus.hints import Doorbell, Hints, LocalDoorbell, Pace
from mastra_sql.bus.statements import BusStatements
from mastra_sql.bus.tables import BusTables, build_bus_tables

__all__ = (
    "Appended",
    "BusDialect",
    "BusLimits",
    "BusStatements",
    "BusTables",
    "ClaimedRow",
    "Doorbell",
    "Hints",
    "LocalDoorbell",
    "NewEvent",
    "Pace",
    "SqlBusDriver",
    "build_bus_tables",
)
