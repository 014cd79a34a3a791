"""What happens to a tool call that runs detached from its run (streaming.md 8).

``manager`` is the entry: it records tasks, runs them under a lease and tells what becomes of
them. ``eligibility`` decides which calls become tasks, ``results`` puts their ends into stored
messages, ``recover`` takes over what a dead process left.
"""

from mastra_core.background.eligibility import AgentBackground, agent_background, policy_from
from mastra_core.background.manager import BackgroundTaskManager
from mastra_core.background.results import ResultWriter
from mastra_core.background.settings import BackgroundTaskSettings, settings_from
from mastra_core.background.watching import TaskStream

__all__ = (
    "AgentBackground",
    "BackgroundTaskManager",
    "BackgroundTaskSettings",
    "ResultWriter",
    "TaskStream",
    "agent_background",
    "policy_from",
    "settings_from",
)
