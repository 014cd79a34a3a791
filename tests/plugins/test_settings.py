"""Which names a settings model reads."""

from __future__ import annotations

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.plugins.settings import check_known, known_options, options_instance


class ByAlias(BaseModel):
    plain: int = 0
    aliased: int = Field(default=0, alias="other")
    read_as: int = Field(default=0, validation_alias="third")
    choice: int = Field(default=0, validation_alias=AliasChoices("x", "y"))


class ByBoth(ByAlias):
    model_config = ConfigDict(populate_by_name=True)


class CamelCase(BaseModel):
    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_s", "S"), populate_by_name=True
    )

    window_size: int = Field(default=1, gt=0)


def test_known_names_are_those_that_the_model_reads() -> None:
    """An alias hides the name, unless the model says otherwise."""
    assert {"plain", "other", "third", "x", "y"} == known_options(ByAlias)
    assert {"plain", "other", "aliased", "third", "read_as", "x", "y", "choice"} == known_options(
        ByBoth
    )


def test_stored_camel_case_is_read() -> None:
    """Configurations of the TypeScript system load (processors.md 10.5)."""
    for name in ("windowSize", "window_size"):
        made = options_instance(CamelCase, {name: 3}, where="here")
        assert CamelCase(window_size=3) == made


def test_values_that_dont_fit_are_named_without_the_value() -> None:
    """The value may be a secret."""
    with pytest.raises(ConfigError) as caught:
        options_instance(CamelCase, {"windowSize": "geheim"}, where="the options of 'x'")

    assert "Setting 'windowSize' in the options of 'x' is not valid: " in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_typo_gets_a_hint() -> None:
    """If something looks like it."""
    with pytest.raises(UnknownSettingError) as caught:
        check_known("pool_sise", {"pool_size", "schema"}, where="here")
    assert "Did you mean 'pool_size'?" == caught.value.hint

    with pytest.raises(UnknownSettingError) as caught:
        check_known("zzz", {"pool_size"}, where="here")
    assert caught.value.hint is None
