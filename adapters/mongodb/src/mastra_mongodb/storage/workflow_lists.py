"""Lists of runs (snapshots.md 5.5, 5.6, 8, G7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from bson.raw_bson import RawBSONDocument

from mastra_core.base.isotime import from_epoch_ms
from mastra_core.contracts.storage import DateRange, SuspendedRunPage, SuspendedRunRow
from mastra_core.errors import StorageDataError
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.paging import Page, bounds_ms, cursor_page, optional_page
from mastra_core.rules.suspended import suspended_row
from mastra_core.wire.snapshots import WorkflowRun, WorkflowRuns
from mastra_core.wire.tables import WORKFLOW_SNAPSHOTS
from mastra_mongodb.documents import RAW, trusted
from mastra_mongodb.pool import Collection
from mastra_mongodb.schema import OWNER_PATHS, RESOURCE_PATHS, STATE_PATH, THREAD_PATHS
from mastra_mongodb.storage.host import STORE, Host
from mastra_mongodb.storage.snapshots import snapshot_from_row

__all__ = (
    "Document",
    "RunLists",
    "owned_by",
    "run_from_row",
    "suspended_count_stages",
    "suspended_page_stages",
)

logger = logging.getLogger(__name__)

Document = dict[str, Any]

_NEWEST: Final = {"createdAt": -1, "run_id": -1}
_STATE: Final = STATE_PATH.split(".")
#: Members of a suspended document that listing doesn't need; most of its bytes are here.
_HEAVY: Final = (
    "_id",
    STATE_PATH,
    "snapshot.context.executionWorkflow.payload",
    "snapshot.context.input.messageListState",
    "snapshot.context.input.accumulatedSteps",
    "snapshot.context.input.output",
    "snapshot.serializedStepGraph",
    "snapshot.requestContext",
    "snapshot.value",
    "snapshot.result",
)
_REGULAR_INFO: Final = f"{STATE_PATH}.messageList.memoryInfo"
_DURABLE_INFO: Final = "snapshot.context.input.messageListState.memoryInfo"
#: A document without what listing doesn't need, and where its thread and resource are.
_LIGHT: Final[list[Document]] = [
    {
        "$set": {
            "_regular": f"${_REGULAR_INFO}",
            "_durable": f"${_DURABLE_INFO}",
            "_hasState": {"$gt": [f"${STATE_PATH}", None]},
        }
    },
    {"$unset": list(_HEAVY)},
]
_KEYS: Final[Document] = {"$project": {"_id": 0, "workflow_name": 1, "run_id": 1, "createdAt": 1}}
#: From this row on a page is looked up by its keys: that costs about 0.2 ms a row.
_NEAR: Final = 100


class RunLists:
    """The part of the workflows domain that only reads."""

    _host: Host

    @property
    def _raw_rows(self) -> Collection:
        return self._host.collection(WORKFLOW_SNAPSHOTS, RAW)

    async def list_workflow_runs(
        self,
        *,
        workflow_name: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | Literal[False] | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
        status: str | None = None,
    ) -> WorkflowRuns:
        """Rows, newest created first."""
        place = optional_page(page, per_page, store=STORE, operation="list_workflow_runs")
        equal = {"workflow_name": workflow_name, "resourceId": resource_id}
        wanted: Document = {name: value for name, value in equal.items() if value is not None}
        if status is not None:
            # To MongoDB a list equals each of its elements.
            wanted["snapshot.status"] = {"$eq": status, "$not": {"$type": "array"}}
        wanted |= _created_between(from_date, to_date)
        if thread_id is not None:
            wanted["$expr"] = _any_suspended_thread(thread_id)
        rows = self._raw_rows
        with self._host.errors("list_workflow_runs"):
            if place is None:
                documents = await rows.find(wanted).sort(_NEWEST).to_list()
                total = len(documents)
            elif place.limit == 0:
                documents, total = [], await rows.count_documents(wanted)
            else:
                cursor = rows.find(wanted).sort(_NEWEST).skip(place.offset)
                documents, total = await asyncio.gather(
                    cursor.limit(place.limit or 0).to_list(), rows.count_documents(wanted)
                )
            return WorkflowRuns(runs=[run_from_row(row) for row in documents], total=total)

    async def list_suspended_runs(
        self,
        *,
        workflow_names: Sequence[str],
        agent_id: str,
        thread_id: str | None = None,
        resource_id: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> SuspendedRunPage:
        """Suspended rows of one agent: keys from the indexes, then the documents of the page."""
        check_text(agent_id, "agent_id")
        place = cursor_page(
            page,
            per_page,
            has_cursor=after is not None,
            store=STORE,
            operation="list_suspended_runs",
        )
        branches = [
            {"workflow_name": name, **branch, **_created_between(from_date, to_date)}
            for name in dict.fromkeys(workflow_names)
            for branch in owned_by(agent_id, thread_id, resource_id)
        ]
        if not branches:
            return SuspendedRunPage(rows=[], total=0)
        listed = branches
        if after is not None:
            listed = [{"$and": [branch, _behind(after)]} for branch in branches]
        with self._host.errors("list_suspended_runs"):
            if place is None and after is None:
                rows = await self._suspended(listed, None)
                return SuspendedRunPage(rows=rows, total=len(rows))
            total, rows = await asyncio.gather(
                self._count(branches), self._suspended(listed, place)
            )
            return SuspendedRunPage(rows=rows, total=total)

    async def _suspended(
        self, branches: Sequence[Document], place: Page | None
    ) -> list[SuspendedRunRow]:
        if place is not None and place.limit == 0:
            return []
        stages = suspended_page_stages(self._raw_rows.name, branches, place)
        documents = await (await self._raw_rows.aggregate(stages)).to_list()
        found: list[SuspendedRunRow] = []
        for document in documents:
            row = _suspended_from(document)
            if row is not None:
                found.append(row)
        return found

    async def _count(self, branches: Sequence[Document]) -> int:
        """How many rows all branches have, from the indexes alone."""
        stages = suspended_count_stages(self._raw_rows.name, branches)
        documents = await (await self._raw_rows.aggregate(stages)).to_list()
        return sum(document["n"] for document in documents)

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        """Rows whose document is text that doesn't parse, or nothing at all."""
        check_limit(limit)
        found: list[WorkflowRun] = []
        with self._host.errors("list_corrupt_runs"):
            wanted = {"snapshot": {"$not": {"$type": "object"}}}
            async for row in self._raw_rows.find(wanted).sort(_NEWEST):
                run = run_from_row(row)
                if isinstance(run.snapshot, str):
                    found.append(run)
                if len(found) == limit:
                    break
        return found

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        """The row; without a name the newest with that run id."""
        if not run_id:
            return None
        wanted = {"run_id": run_id}
        if workflow_name is not None:
            wanted["workflow_name"] = workflow_name
        with self._host.errors("get_workflow_run_by_id"):
            order = {"createdAt": -1, "workflow_name": 1}
            rows = await self._raw_rows.find(wanted).sort(order).limit(1).to_list()
            return run_from_row(rows[0]) if rows else None


# -- which rows -------------------------------------------------------------------------------


def suspended_page_stages(
    collection: str, branches: Sequence[Document], place: Page | None
) -> list[Document]:
    """
    The documents of a page: every branch in the order of its index, merged.

    What lies before a page far behind is gone through by its keys; the documents of the page
    are looked up then, one by one.
    """
    is_far = place is not None and place.offset > _NEAR
    limit = [] if place is None or place.end is None else [{"$limit": place.end}]
    shape = [_KEYS] if is_far else _LIGHT

    def listed(branch: Document) -> list[Document]:
        return [{"$match": branch}, {"$sort": dict(_NEWEST)}, *limit, *shape]

    first, *others = branches
    stages = listed(first)
    stages += [{"$unionWith": {"coll": collection, "pipeline": listed(one)}} for one in others]
    if others:
        stages.append({"$sort": dict(_NEWEST)})
    if place is not None and place.limit is not None:
        if place.offset:
            stages.append({"$skip": place.offset})
        stages.append({"$limit": place.limit})
    return [*stages, *_looked_up(collection)] if is_far else stages


def _looked_up(collection: str) -> list[Document]:
    """The documents of keys."""
    is_named = {"$match": {"$expr": {"$eq": ["$workflow_name", "$$name"]}}}
    return [
        {
            "$lookup": {
                "from": collection,
                "localField": "run_id",
                "foreignField": "run_id",
                "let": {"name": "$workflow_name"},
                "pipeline": [is_named, *_LIGHT],
                "as": "row",
            }
        },
        {"$replaceWith": {"$first": "$row"}},
    ]


def suspended_count_stages(collection: str, branches: Sequence[Document]) -> list[Document]:
    """One number per branch."""
    first, *others = branches
    counted: Document = {"$count": "n"}
    return [
        {"$match": first},
        counted,
        *(
            {"$unionWith": {"coll": collection, "pipeline": [{"$match": one}, counted]}}
            for one in others
        ),
    ]


def owned_by(agent_id: str, thread_id: str | None, resource_id: str | None) -> list[Document]:
    """
    Conditions that exclude each other and together are the owner rule of snapshots.md 4.4.

    Each is worded so that one of the partial indexes serves it.
    """
    regular, durable = OWNER_PATHS
    suspended: Document = {"snapshot.status": "suspended"}
    owners: tuple[Document, ...] = (
        {**suspended, regular: agent_id},
        {**suspended, durable: agent_id, "$nor": [{regular: {"$gt": ""}}]},
    )
    if thread_id is not None:
        places = _either(THREAD_PATHS, thread_id)
        if resource_id is not None:
            places = [{**place, **_of_resource(resource_id)} for place in places]
    elif resource_id is not None:
        unowned: Document = {"resourceId": {"$in": [None, ""]}}
        inside = [{**place, **unowned} for place in _either(RESOURCE_PATHS, resource_id)]
        places = [{"resourceId": resource_id}, *inside]
    else:
        places = [{}]
    return [{"$and": [owner, place]} if place else owner for owner in owners for place in places]


def _either(paths: tuple[str, str], value: str) -> list[Document]:
    """In the state of the stream; or, if there is none, in the durable input."""
    return [{paths[0]: value}, {paths[1]: value, STATE_PATH: {"$in": [None, {}]}}]


def _of_resource(resource_id: str) -> Document:
    inside = _either(RESOURCE_PATHS, resource_id)
    return {
        "$or": [
            {"resourceId": resource_id},
            *({"resourceId": {"$in": [None, ""]}, **place} for place in inside),
        ]
    }


def _created_between(start: datetime | None, end: datetime | None) -> Document:
    low, high = bounds_ms(DateRange(start=start, end=end))
    bounds = {"$gte": low, "$lt": high}
    found = {word: from_epoch_ms(bound) for word, bound in bounds.items() if bound is not None}
    return {"createdAt": found} if found else {}


def _behind(after: tuple[datetime, str]) -> Document:
    """Rows that come later in the order than a cursor."""
    at, run_id = moment(after[0], "after"), after[1]
    return {
        "createdAt": {"$lte": at},
        "$or": [{"createdAt": {"$lt": at}}, {"run_id": {"$lt": run_id}}],
    }


def _any_suspended_thread(thread_id: str) -> Document:
    """Whether any suspended step, or the durable input, names the thread."""
    steps = {
        "$cond": [
            {"$eq": [{"$type": "$snapshot.context"}, "object"]},
            {"$objectToArray": "$snapshot.context"},
            [],
        ]
    }
    path = "$$step.v.suspendPayload.__streamState.messageList.memoryInfo.threadId"
    wanted = {"$literal": thread_id}
    return {
        "$or": [
            {"$eq": [f"${THREAD_PATHS[1]}", wanted]},
            {
                "$anyElementTrue": {
                    "$map": {"input": steps, "as": "step", "in": {"$eq": [path, wanted]}}
                }
            },
        ]
    }


# -- rows -------------------------------------------------------------------------------------


def run_from_row(row: Mapping[str, Any], *, version: str | None = None) -> WorkflowRun:
    """The row as a run; a document that is no JSON stays the text that it is."""
    run_id = row["run_id"]
    stored = row.get("snapshot")
    snapshot: dict[str, Any] | str
    try:
        snapshot = snapshot_from_row(stored, run_id=run_id)
    except StorageDataError:
        logger.warning("snapshot is no JSON", extra={"run_id": run_id})
        snapshot = "" if stored is None else str(stored)
    values = {
        "workflow_name": row["workflow_name"],
        "run_id": run_id,
        "resource_id": row.get("resourceId"),
        "snapshot": snapshot,
        "created_at": row["createdAt"],
        "updated_at": row["updatedAt"],
        "version": version,
    }
    return trusted(WorkflowRun, values, {name for name in values if values[name] is not None})


def _suspended_from(row: RawBSONDocument) -> SuspendedRunRow | None:
    """The projection of a row; None if it went away meanwhile."""
    if not row:
        return None
    document = snapshot_from_row(row["snapshot"], run_id=row["run_id"])
    if row.get("_hasState"):
        info = _info(row.get("_regular"))
        state = {"messageList": {"memoryInfo": info}}
        _put_back(document, _STATE[1:-1], "__streamState", state)
    durable = _info(row.get("_durable"))
    if durable is not None:
        state = {"memoryInfo": durable}
        _put_back(document, ["context", "input"], "messageListState", state)
    return suspended_row(
        document,
        workflow_name=row["workflow_name"],
        run_id=row["run_id"],
        resource_id=row.get("resourceId"),
        created_at=row["createdAt"],
        updated_at=row["updatedAt"],
    )


def _info(stored: Any) -> Any:
    return dict(stored) if isinstance(stored, RawBSONDocument) else stored


def _put_back(document: Document, parents: Sequence[str], member: str, value: Any) -> None:
    """Give a document that was stripped by the server its memory info back."""
    parent: Any = document
    for name in parents:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if isinstance(parent, dict):
        parent[member] = value
