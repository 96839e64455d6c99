from __future__ import annotations

import pytest

from launcher.redaction import REDACTED, is_secret, redacted, redacted_yaml


@pytest.mark.parametrize(
    "key",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "apikey",
     "GITHUB_TOKEN", "SSH_PRIVATE_KEY", "MYSQL_PWD", "BASIC_AUTH", "SESSION_COOKIE", "PASSPHRASE"],
)  # fmt: skip
def test_a_key_that_names_a_secret_is_one(key: str) -> None:
    assert is_secret(key, "value")


@pytest.mark.parametrize(
    "key",
    ["TF_CONFIG", "PATH", "PWD", "NCCL_DEBUG", "KEYBOARD", "MONKEY", "AUTHOR", "TF_KERAS_LAYOUT", "OMP_NUM_THREADS"],
)
def test_an_ordinary_key_is_none(key: str) -> None:
    assert not is_secret(key, "value")


def test_a_url_with_a_password_is_a_secret_under_any_key() -> None:
    assert is_secret("PROXY", "http://me:hunter2@proxy:3128")
    assert not is_secret("PROXY", "http://proxy:3128")


def test_only_the_secret_values_are_replaced() -> None:
    assert redacted({"TOKEN": "x", "MODE": "y"}) == {"TOKEN": REDACTED, "MODE": "y"}


def test_a_cluster_file_keeps_every_character_but_its_secrets() -> None:
    text = "# mine\nhosts:\n- host: localhost\n  env: {HF_TOKEN: 'a ''b'' c', MODE: fast}  # why\n"
    assert redacted_yaml(text) == text.replace("'a ''b'' c'", REDACTED)


def test_a_secret_of_several_lines_is_replaced_whole() -> None:
    text = "defaults:\n  env:\n    PRIVATE_KEY: |\n      line one\n      line two\n    MODE: fast\nhosts: []\n"
    shown = redacted_yaml(text)
    assert "line" not in shown
    assert "MODE: fast" in shown


def test_a_key_outside_of_env_is_no_secret() -> None:
    text = "name: x\ntoken: visible\n"
    assert redacted_yaml(text) == text


def test_a_secret_behind_an_alias_is_replaced_at_its_anchor() -> None:
    text = "a: &env {TOKEN: hunter2}\nhosts:\n- host: localhost\n  env: *env\n"
    assert "hunter2" not in redacted_yaml(text)
