"""The bus in a SQL database, without the database's own half."""

from __future__ import annotations

from mastra_sql.bus.database import OpenDatabase
from mastra_sql.bus.dialect import BusDialect
from mastra_sql.bus.driver import (
    Appended,
    ClaimedRow,
    NewEvent,
    SqlBusDriver,
    appended_from,
)
from mastra_sql.bus.hints import Doorbell, Hints, LocalDoorbell, Pace
from mastra_sql.bus.statements import BusStatements
from mastra_sql.bus.tables import BusTables, build_bus_tables

__all__ = (
    "Appended",
    "BusDialect",
    "BusStatements",
    "BusTables",
    "ClaimedRow",
    "Doorbell",
    "Hints",
    "LocalDoorbell",
    "NewEvent",
    "OpenDatabase",
    "Pace",
    "SqlBusDriver",
    "appended_from",
    "build_bus_tables",
)
