"""
What can go wrong, by name.

Catch the class, or compare ``error.id``, which is also the ``code`` on the wire. The number is
the HTTP status; *retryable* means that repeating the same call is safe.

::

    MastraError                                      500
    ├── ConfigError                                  400
    │   ├── ClosedError (RuntimeError)
    │   ├── InvalidUrlError (ValueError)
    │   ├── UnknownSchemeError
    │   └── UnknownSettingError
    ├── PluginError                                  500
    │   ├── AdapterNotInstalledError (ImportError)
    │   ├── DriverNotInstalledError (ImportError)
    │   ├── PluginBrokenError
    │   ├── PluginIncompatibleError
    │   ├── PluginConflictError
    │   └── PluginBlockedError
    ├── CapabilityNotSupportedError (NotImplementedError)   501
    ├── WireError                                    500
    │   ├── WireDecodeError (ValueError)             400
    │   ├── WireEncodeError (TypeError)              400
    │   └── WireVersionError                         409
    ├── StorageError                                 500
    │   ├── StorageConnectionError                   503  retryable
    │   ├── StorageTimeoutError (TimeoutError)       504  retryable
    │   ├── StorageConflictError                     409
    │   ├── StorageSchemaError
    │   ├── StorageDataError
    │   ├── StorageArgumentError (ValueError)        400
    │   ├── FencedOutError                           409
    │   └── NotFoundError (LookupError)              404
    │       ├── ThreadNotFoundError
    │       ├── MessageNotFoundError
    │       ├── NotificationNotFoundError
    │       ├── TaskNotFoundError
    │       └── ScheduleNotFoundError
    ├── PubSubError                                  500
    │   ├── PubSubConnectionError                    503  retryable
    │   ├── EventTooLargeError                       413
    │   ├── StreamGapError                           410
    │   ├── FlushTimeoutError (TimeoutError)         504  retryable
    │   └── PubSubClosedError
    ├── LeaseError                                   500
    │   ├── LeaseLostError                           409
    │   ├── LeaseConflictError                       409
    │   └── LeaseUnavailableError                    503  retryable
    ├── SignalError                                  500
    │   ├── InvalidSignalError (ValueError)          400
    │   ├── SignalQueueFullError                     429
    │   ├── SignalPersistUnavailableError            409
    │   ├── SignalIdConflictError                    409
    │   └── DeliveryError                            502
    ├── RunError                                     500
    │   ├── RunArgumentError (ValueError)            400
    │   ├── RunNotFoundError (LookupError)           404
    │   ├── NotSuspendedError                        409
    │   ├── ForeignRunError                          403
    │   ├── ResumeKindMismatchError                  409
    │   ├── AmbiguousRunError                        409
    │   ├── RunAbortedError                          409
    │   ├── RunTimeoutError (TimeoutError)           504
    │   └── StreamConsumedError                      409
    ├── WorkflowError                                500
    │   ├── StepFailedError
    │   ├── NonRetryableStepError
    │   ├── ResumeClaimedError                       409
    │   └── SchemaError                              400
    ├── ProcessorError                               500
    │   ├── TripwireError                            400
    │   ├── DuplicateProcessorError
    │   └── ProcessorTimeoutError (TimeoutError)     504
    ├── ToolError                                    500
    │   ├── ToolNotFoundError (LookupError)          404
    │   ├── ToolInputError (ValueError)              400
    │   ├── ToolFailedError
    │   └── ToolTimeoutError (TimeoutError)          504
    ├── ModelError                                   502
    │   ├── ModelNotFoundError (LookupError)         404
    │   ├── ModelHTTPError                           retryable by its status
    │   ├── ModelTimeoutError (TimeoutError)         504  retryable
    │   └── ModelOutputError
    │       └── StructuredOutputError
    ├── NotificationError                            500
    │   └── NotificationExistsError                  409
    ├── TaskError                                    500
    │   ├── TaskTimeoutError (TimeoutError)          504
    │   ├── TaskCancelledError                       409
    │   └── TaskLimitError                           429
    └── HttpError                                    500
        ├── AuthenticationError                      401
        ├── ForbiddenError                           403
        └── RequestError                             400

    MastraWarning (UserWarning)
    ├── PluginWarning
    ├── DegradedWarning
    └── ExperimentalWarning
    MastraDeprecationWarning (DeprecationWarning)
"""

from __future__ import annotations

from mastra_core.errors.base import (
    CapabilityNotSupportedError,
    Category,
    ClosedError,
    ConfigError,
    DegradedWarning,
    ErrorFields,
    ExperimentalWarning,
    InvalidUrlError,
    MastraDeprecationWarning,
    MastraError,
    MastraWarning,
    PluginWarning,
    UnknownSchemeError,
    UnknownSettingError,
    WireDecodeError,
    WireEncodeError,
    WireError,
    WireVersionError,
    error_from_wire,
    wire_from_error,
)
from mastra_core.errors.details import (
    JsonDetail,
    reason_of,
    shown,
)
from mastra_core.errors.http import (
    AuthenticationError,
    ForbiddenError,
    HttpError,
    RequestError,
)
from mastra_core.errors.plugin import (
    AdapterNotInstalledError,
    DriverNotInstalledError,
    PluginBlockedError,
    PluginBrokenError,
    PluginConflictError,
    PluginError,
    PluginIncompatibleError,
)
from mastra_core.errors.run import (
    AmbiguousRunError,
    ForeignRunError,
    NonRetryableStepError,
    NotSuspendedError,
    ResumeClaimedError,
    ResumeKindMismatchError,
    RunAbortedError,
    RunArgumentError,
    RunError,
    RunNotFoundError,
    RunTimeoutError,
    SchemaError,
    StepFailedError,
    StreamConsumedError,
    WorkflowError,
    no_run_storage,
    wrong_list_argument,
)
from mastra_core.errors.signal import (
    DeliveryError,
    InvalidSignalError,
    NotificationError,
    NotificationExistsError,
    SignalError,
    SignalIdConflictError,
    SignalPersistUnavailableError,
    SignalQueueFullError,
)
from mastra_core.errors.storage import (
    FencedOutError,
    MessageNotFoundError,
    NotFoundError,
    NotificationNotFoundError,
    ScheduleNotFoundError,
    StorageArgumentError,
    StorageConflictError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
    TaskNotFoundError,
    ThreadNotFoundError,
    snapshot_too_large,
)
from mastra_core.errors.transport import (
    EventTooLargeError,
    FlushTimeoutError,
    LeaseConflictError,
    LeaseError,
    LeaseLostError,
    LeaseUnavailableError,
    PubSubClosedError,
    PubSubConnectionError,
    PubSubError,
    StreamGapError,
)
from mastra_core.errors.work import (
    DuplicateProcessorError,
    ModelError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOutputError,
    ModelTimeoutError,
    ProcessorError,
    ProcessorTimeoutError,
    StructuredOutputError,
    TaskCancelledError,
    TaskError,
    TaskLimitError,
    TaskTimeoutError,
    ToolError,
    ToolFailedError,
    ToolInputError,
    ToolNotFoundError,
    ToolTimeoutError,
    TripwireError,
)

__all__ = (
    "AdapterNotInstalledError",
    "AmbiguousRunError",
    "AuthenticationError",
    "CapabilityNotSupportedError",
    "Category",
    "ClosedError",
    "ConfigError",
    "DegradedWarning",
    "DeliveryError",
    "DriverNotInstalledError",
    "DuplicateProcessorError",
    "ErrorFields",
    "EventTooLargeError",
    "ExperimentalWarning",
    "FencedOutError",
    "FlushTimeoutError",
    "ForbiddenError",
    "ForeignRunError",
    "HttpError",
    "InvalidSignalError",
    "InvalidUrlError",
    "JsonDetail",
    "LeaseConflictError",
    "LeaseError",
    "LeaseLostError",
    "LeaseUnavailableError",
    "MastraDeprecationWarning",
    "MastraError",
    "MastraWarning",
    "MessageNotFoundError",
    "ModelError",
    "ModelHTTPError",
    "ModelNotFoundError",
    "ModelOutputError",
    "ModelTimeoutError",
    "NonRetryableStepError",
    "NotFoundError",
    "NotSuspendedError",
    "NotificationError",
    "NotificationExistsError",
    "NotificationNotFoundError",
    "PluginBlockedError",
    "PluginBrokenError",
    "PluginConflictError",
    "PluginError",
    "PluginIncompatibleError",
    "PluginWarning",
    "ProcessorError",
    "ProcessorTimeoutError",
    "PubSubClosedError",
    "PubSubConnectionError",
    "PubSubError",
    "RequestError",
    "ResumeClaimedError",
    "ResumeKindMismatchError",
    "RunAbortedError",
    "RunArgumentError",
    "RunError",
    "RunNotFoundError",
    "RunTimeoutError",
    "ScheduleNotFoundError",
    "SchemaError",
    "SignalError",
    "SignalIdConflictError",
    "SignalPersistUnavailableError",
    "SignalQueueFullError",
    "StepFailedError",
    "StorageArgumentError",
    "StorageConflictError",
    "StorageConnectionError",
    "StorageDataError",
    "StorageError",
    "StorageSchemaError",
    "StorageTimeoutError",
    "StreamConsumedError",
    "StreamGapError",
    "StructuredOutputError",
    "TaskCancelledError",
    "TaskError",
    "TaskLimitError",
    "TaskNotFoundError",
    "TaskTimeoutError",
    "ThreadNotFoundError",
    "ToolError",
    "ToolFailedError",
    "ToolInputError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "TripwireError",
    "UnknownSchemeError",
    "UnknownSettingError",
    "WireDecodeError",
    "WireEncodeError",
    "WireError",
    "WireVersionError",
    "WorkflowError",
    "error_from_wire",
    "no_run_storage",
    "reason_of",
    "shown",
    "snapshot_too_large",
    "wire_from_error",
    "wrong_list_argument",
)
