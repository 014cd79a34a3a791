"""Settings: which place wins, which names exist, what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastra_core.config import Settings, load_settings
from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.plugins.options import PluginOptions


def write(folder: Path, *, mastra: str | None = None, pyproject: str | None = None) -> Path:
    if mastra is not None:
        (folder / "mastra.toml").write_text(mastra, "utf-8")
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject, "utf-8")
    return folder


PYPROJECT = """
[project]
name = "app"

[tool.mastra.storage]
url = "file:pyproject.db"

[tool.mastra.plugins]
strict = true
disable = ["a"]
"""


def test_defaults_without_anything(tmp_path: Path) -> None:
    """Nothing is chosen, everything may be used."""
    settings = load_settings(environ={}, directory=tmp_path)

    assert settings.storage.url is None
    assert PluginOptions() == settings.plugins.to_options()


@pytest.mark.parametrize(
    ("argument", "variable", "mastra", "expected"),
    [
        ("file:argument.db", "file:environment.db", "file:mastra.db", "file:argument.db"),
        (None, "file:environment.db", "file:mastra.db", "file:environment.db"),
        (None, "", "file:mastra.db", "file:mastra.db"),
        (None, None, None, "file:pyproject.db"),
    ],
)
def test_the_nearer_place_wins(
    argument: str | None,
    variable: str | None,
    mastra: str | None,
    expected: str,
    tmp_path: Path,
) -> None:
    """Argument, environment, mastra.toml, [tool.mastra]; an empty variable is unset."""
    toml = None if mastra is None else f'[storage]\nurl = "{mastra}"\n'
    write(tmp_path, mastra=toml, pyproject=PYPROJECT)
    environ = {} if variable is None else {"MASTRA_STORAGE_URL": variable}

    settings = load_settings({"storage": {"url": argument}}, environ=environ, directory=tmp_path)

    assert expected == settings.storage.url


def test_places_are_merged_key_by_key(tmp_path: Path) -> None:
    """Each value keeps its origin."""
    write(tmp_path, mastra="[plugins]\ntrace = true\nstrict = false\n", pyproject=PYPROJECT)

    settings = load_settings(environ={"MASTRA_PLUGINS": "b,c"}, directory=tmp_path)

    options = settings.plugins.to_options()
    assert (frozenset({"b", "c"}), frozenset({"a"}), False, True) == (
        options.enable,
        options.disable,
        options.strict,
        options.trace,
    )
    described = settings.describe()
    assert "environment MASTRA_PLUGINS" == described["plugins.enable"][1]
    assert "mastra.toml" == described["plugins.trace"][1]
    assert "[tool.mastra] of pyproject.toml" == described["plugins.disable"][1]
    assert "default" == described["lease.url"][1]


def test_the_process_s_own_environment_and_folder_are_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any program."""
    write(tmp_path, mastra='[storage]\nurl = "file:here.db"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASTRA_LEASE_URL", "redis://h")

    settings = load_settings()

    assert ("file:here.db", "redis://h") == (settings.storage.url, settings.lease.url)


def test_options_of_adapters_come_from_everywhere(tmp_path: Path) -> None:
    """The adapter's own model checks them later."""
    write(tmp_path, mastra='[storage]\nurl = "acme:x"\nschema = "s"\npool_size = 3\n')
    environ = {"MASTRA_STORAGE__POOL_SIZE": "9", "MASTRA_PUBSUB__URL": "acme:y"}

    settings = load_settings(environ=environ, directory=tmp_path)

    assert {"schema": "s", "pool_size": "9"} == settings.storage.options
    assert "acme:y" == settings.pubsub.url


def test_options_stay_with_the_url_that_they_stand_beside(tmp_path: Path) -> None:
    """A nearer place that chooses another database doesn't inherit them."""
    write(tmp_path, mastra='[storage]\nurl = "postgresql://h/d"\nschema = "s"\n')

    settings = load_settings(
        environ={"MASTRA_STORAGE_URL": "file:x.db", "MASTRA_STORAGE__MODE": "ro"},
        directory=tmp_path,
    )

    assert ("file:x.db", {"mode": "ro"}) == (settings.storage.url, settings.storage.options)


@pytest.mark.parametrize(
    "value", ["postgresql=mastra-acme, redis = x", '{"postgresql": "mastra-acme", "redis": "x"}']
)
def test_tables_in_the_environment(value: str, tmp_path: Path) -> None:
    """As pairs or as JSON."""
    settings = load_settings(environ={"MASTRA_PLUGINS__PREFER": value}, directory=tmp_path)

    assert {"postgresql": "mastra-acme", "redis": "x"} == settings.plugins.prefer


@pytest.mark.parametrize("value", ['["a", "b"]', "a, b,"])
def test_lists_in_the_environment(value: str, tmp_path: Path) -> None:
    """With commas or as JSON."""
    settings = load_settings(environ={"MASTRA_PLUGINS__DISABLE": value}, directory=tmp_path)

    assert ["a", "b"] == settings.plugins.disable


def test_an_empty_list_in_a_file_means_no_plugin(tmp_path: Path) -> None:
    """Unlike an empty variable, it was written on purpose."""
    write(tmp_path, mastra="[plugins]\nenable = []\n")

    assert frozenset() == load_settings(environ={}, directory=tmp_path).plugins.to_options().enable


@pytest.mark.parametrize(
    ("mastra", "environ", "text", "hint"),
    [
        (
            "[storag]\nurl = 'x'",
            {},
            "Unknown setting 'storag' in mastra.toml. Known: storage, pubsub, lease, plugins, telemetry.",
            "Did you mean 'storage'?",
        ),
        ("[sources]\na = 1", {}, "Unknown setting 'sources' in mastra.toml.", None),
        (
            "[plugins]\nstrickt = true",
            {},
            "Unknown setting 'plugins.strickt' in mastra.toml. Known: plugins.enable, ",
            "Did you mean 'plugins.strict'?",
        ),
        (
            None,
            {"MASTRA_PLUGINS__TRACES": "1"},
            "Unknown setting 'plugins.traces' in environment MASTRA_PLUGINS__TRACES.",
            "Did you mean 'plugins.trace'?",
        ),
        (
            None,
            {"MASTRA_STORAG__URL": "x"},
            "Unknown setting 'MASTRA_STORAG__URL' in the environment. Known: MASTRA_STORAGE__…",
            None,
        ),
    ],
)
def test_unknown_names_are_errors_that_list_the_known_ones(
    mastra: str | None, environ: dict[str, str], text: str, hint: str | None, tmp_path: Path
) -> None:
    """Whoever wrote it meant something."""
    write(tmp_path, mastra=mastra)

    with pytest.raises(UnknownSettingError) as caught:
        load_settings(environ=environ, directory=tmp_path)

    assert text in str(caught.value)
    assert hint is None or hint == caught.value.hint


def test_foreign_variables_are_none_of_our_business(tmp_path: Path) -> None:
    """Test servers, other parts of the runtime, other programs."""
    environ = {
        "MASTRA_TEST_POSTGRES_URL": "x",
        "MASTRA_AGENT_THREAD_LEASE_TTL_MS": "15000",
        "MASTRA_": "x",
        "MASTRA___X": "x",
        "MASTRA_STORAGE__": "x",
        "OTHER__X": "x",
    }

    assert Settings() == load_settings(environ=environ, directory=tmp_path)


@pytest.mark.parametrize(
    ("mastra", "environ", "text"),
    [
        ("[storage]\nurl = 7", {}, "Setting 'storage.url' in mastra.toml is not valid: "),
        (
            "",
            {"MASTRA_PLUGINS_STRICT": "maybe"},
            "Setting 'plugins.strict' in environment MASTRA_PLUGINS_STRICT is not valid: ",
        ),
        ("[plugins]\nstart_deadline = 0", {}, "'plugins.start_deadline' in mastra.toml"),
        ("[plugins]\nprefer = 3", {}, "Setting 'plugins.prefer' in mastra.toml is not valid: "),
        ("[plugins]\nenable = 3", {}, "Setting 'plugins.enable' in mastra.toml is not valid: "),
        ("storage = 3", {}, "'storage' in mastra.toml is not a table."),
        ("[storage", {}, "mastra.toml is not valid TOML: "),
        ("", {"MASTRA_PLUGINS__DISABLE": "[1"}, None),
    ],
)
def test_values_that_dont_fit_are_named_with_their_place(
    mastra: str, environ: dict[str, str], text: str | None, tmp_path: Path
) -> None:
    """What looks like JSON and isn't stays text."""
    write(tmp_path, mastra=mastra)
    if text is None:
        assert ["[1"] == load_settings(environ=environ, directory=tmp_path).plugins.disable
        return

    with pytest.raises(ConfigError) as caught:
        load_settings(environ=environ, directory=tmp_path)

    assert text in str(caught.value)


def test_tool_mastra_must_be_a_table(tmp_path: Path) -> None:
    """The message names the file."""
    write(tmp_path, pyproject="[tool]\nmastra = 1\n")

    with pytest.raises(ConfigError, match=r"'mastra' in pyproject\.toml is not a table"):
        load_settings(environ={}, directory=tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_cant_be_read_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    """Not a reason to go on with other settings."""
    file = tmp_path / "mastra.toml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)

    with pytest.raises(ConfigError, match=r"mastra\.toml can't be read: "):
        load_settings(environ={}, directory=tmp_path)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """Neither in the description nor in an error."""
    arguments = {"storage": {"url": "postgresql://u:geheim@h/d", "auth_token": "geheim"}}

    settings = load_settings(arguments, environ={}, directory=tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_settings({"storage": {"url": ["geheim"]}}, environ={}, directory=tmp_path)

    assert "geheim" not in str(settings.describe())
    assert ("***", "the arguments") == settings.describe()["storage.auth_token"]
    assert "geheim" not in f"{caught.value} {caught.value.__cause__}"
