"""Leases in a SQL database, without the database's own half."""

from __future__ import annotations

from mastra_sql.lease.provider import SqlLease
from mastra_sql.lease.statements import LeaseStatements
from mastra_sql.lease.tables import LeaseTables, build_lease_tables

__all__ = ("LeaseStatements", "LeaseTables", "SqlLease", "build_lease_tables")
