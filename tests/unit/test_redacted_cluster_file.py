"""The copy of a cluster file: it means the same, and has no secret in it. All secrets here are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.cluster.file.file_text import Mistakes
from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.file.redacted_copy import IN_PLACE_OF_COMMENT, redacted_copy
from launcher.cluster.file.yaml_nodes import YamlList, YamlMap, parse
from launcher.cluster.redaction import REDACTED
from launcher.errors import ClusterFileError

HOST = "hosts:\n- host: localhost\n"


def redacted_yaml(text: str) -> str:
    root = parse(text, Mistakes("c.yaml"))
    assert root is not None
    return redacted_copy(text, root)


def test_every_character_but_the_secrets_stays() -> None:
    text = "# mine\nhosts:\n- host: localhost\n  env: {HF_TOKEN: 'a ''b'' c', MODE: fast}  # why\n"

    assert redacted_yaml(text) == text.replace("'a ''b'' c'", REDACTED)


def test_a_key_outside_of_env_is_no_secret() -> None:
    text = "name: x\ntoken: visible\n"

    assert redacted_yaml(text) == text


ENVIRONMENTS = {
    "flow mapping": "  env: {DB_PASS: hunter2, MODE: fast}\n",
    "quoted key": '  env:\n    \'DB_PASS\': "hunter2"\n    "MODE": fast\n',
    "explicit key": "  env:\n    ? DB_PASS\n    : hunter2\n    ? MODE\n    : fast\n",
    "literal block": "  env:\n    PRIVATE_KEY: |\n      hunter2\n      hunter2\n    MODE: fast\n",
    "folded block": "  env:\n    PRIVATE_KEY: >-  # here\n      hunter2\n\n      hunter2\n    MODE: fast\n",
    "block with an indent": "  env:\n    PRIVATE_KEY: |2-\n         hunter2\n    MODE: fast\n",
    "block at the end": "  env:\n    MODE: fast\n    PRIVATE_KEY: |+\n      hunter2\n\n\n",
    "several lines": '  env:\n    DB_PASS: "hunter2\n      hunter2"\n    MODE: fast\n',
    "several plain lines": "  env:\n    DB_PASS: hunter2\n      hunter2\n    MODE: fast\n",
    "tag": "  env: {DB_PASS: !!str hunter2, MODE: fast}\n",
    "anchor": "  env: {DB_PASS: &pw hunter2, ALSO_TOKEN: *pw, MODE: fast}\n",
    "anchor with tag": "  env: {DB_PASS: !!str &pw 'hunter2', ALSO_TOKEN: *pw, MODE: fast}\n",
    "anchor at a harmless key": "  env: {PLAIN: &pw hunter2, MODE: fast, DB_PASS: *pw}\n",
    "within a value": "  env: {URL: 'https://u:hunter2@h/x', SQL: Server=x;Password=hunter2, MODE: fast}\n",
    "value of several parts": "  env: {ARGS: '--api-key=hunter2 --x', MODE: fast}\n",
    "command of words": "  env: {MODE: fast}\ncommand: [python, t.py, --api-key, hunter2, -phunter2]\n",
    "command of one text": "  env: {MODE: fast}\ncommand: python t.py --password hunter2 --epochs 3\n",
    "command in a block": "  env: {MODE: fast}\ncommand: >\n  python t.py\n  --password hunter2\n",
    "command with a shell": "  env: {MODE: fast}\ncommand: [sh, -c, 'API_KEY=hunter2 python t.py']\n",
    "aliases in a command": "  env: {MODE: fast, DB_PASS: &pw hunter2}\ncommand: [python, t.py, --x, *pw]\n",
    "command of a task type": "  env: {MODE: fast}\nper_task: {worker: [python, --password, hunter2]}\n",
    "text for a task type": "  env: {MODE: fast}\nper_task:\n  worker: 'env API_TOKEN=hunter2 python x.py'\n",
    "options for ssh": "  env: {MODE: fast}\nssh: {options: [-o, 'ProxyCommand=nc --proxy-password hunter2 %h']}\n",
    "options for ssh as a text": "  env: {MODE: fast}\nssh:\n  options: -o 'ProxyCommand=nc --password hunter2 x'\n",
    "name": "  env: {MODE: fast}\nname: 'x token=hunter2'\n",
    "umlauts": '  env: {MODE: fast, DB_PASS: "hünter2 hunter2 \\U0001F600"}\n',
    "command with what is not printable": '  env: {MODE: fast}\ncommand: ["a\\x85\\U0001F600 --password hunter2"]\n',
}


def known_secret_gone(value: Any) -> Any:
    """The structure of a file: all but the texts."""
    if isinstance(value, dict):
        return {key: known_secret_gone(each) for key, each in value.items()}
    return [known_secret_gone(each) for each in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("form", ENVIRONMENTS)
def test_a_secret_goes_however_it_is_written(form: str, tmp_path: Path) -> None:
    text = HOST + ENVIRONMENTS[form]
    (tmp_path / "given.yaml").write_text(text)
    read_cluster_file(tmp_path / "given.yaml")

    shown = redacted_yaml(text)
    (tmp_path / "copy.yaml").write_text(shown)

    assert "hunter2" not in shown
    assert known_secret_gone(yaml.safe_load(shown)) == known_secret_gone(yaml.safe_load(text))
    copy = read_cluster_file(tmp_path / "copy.yaml")
    assert copy.hosts[0].env["MODE"] == "fast"
    assert redacted_yaml(shown) == shown


READ_BY_LIBYAML_ALONE = {
    "tabs": "  env: {DB_PASS:\thunter2}\t# PASS=hunter2\n  workers:\t1\n",
    "an anchor that is given again": "  python: &pw python3\n  env: {A: *pw, DB_PASS: &pw hunter2, B: *pw}\n",
}


@pytest.mark.parametrize("form", READ_BY_LIBYAML_ALONE)
def test_whatever_can_be_read_can_be_copied(form: str, tmp_path: Path) -> None:
    text = HOST + READ_BY_LIBYAML_ALONE[form]
    (tmp_path / "given.yaml").write_text(text)
    given = read_cluster_file(tmp_path / "given.yaml").hosts[0]

    shown = redacted_yaml(text)
    (tmp_path / "copy.yaml").write_text(shown)

    assert "hunter2" not in shown
    copy = read_cluster_file(tmp_path / "copy.yaml").hosts[0]
    assert {key: REDACTED if "hunter2" in value else value for key, value in given.env.items()} == copy.env


def test_lines_that_end_as_on_windows_stay_so() -> None:
    text = f"{HOST}  env:  # PASS=hunter2\n    PASS: |\n      hunter2\n      hunter2\n    A: b\n".replace("\n", "\r\n")
    shown = redacted_yaml(text)

    assert "hunter2" not in shown
    assert shown.endswith(f"PASS: {REDACTED}\r\n    A: b\r\n")


COMMENTS = [
    "# DB_PASS: hunter2",
    "# - --api-key=hunter2",
    "#   --api-key hunter2",
    "# export WANDB_API_KEY=hunter2",
    "# the password is: hunter2",
    "# password = hunter2",
    "# token hunter2",
    "# was postgres://me:hunter2@db/x",
    "# ghp_hunter2hunter2hunter2hunter2",
    "# curl -H 'Authorization: Bearer hunter2'",
    "# https://hooks.slack.com/services/T0/B0/hunter2hunter2",
    "# password:\n#   hunter2",
    "# -----BEGIN PRIVATE KEY-----\n# hunter2\n# -----END PRIVATE KEY-----",
]
HARMLESS = [
    "# two workers on this machine",
    "# EPOCHS=3, NUM_TOKENS: 512",
    "# tokens are counted per batch",
    "# see https://example.com/docs/tokens",
    "# the key points: fast, small",
    "# ssh needs your key in the agent",
    "# passwords belong in DB_PASSWORD_FILE",
    "# pass --epochs to train longer",
    "# TODO: authentication",
]


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("place", ["{}\n" + HOST, HOST + "{}\n", "hosts:\n{}\n- host: localhost\n"])
def test_a_comment_with_a_secret_is_not_copied(comment: str, place: str) -> None:
    shown = redacted_yaml(place.format(comment))

    assert "hunter2" not in shown
    assert IN_PLACE_OF_COMMENT in shown
    assert shown.count("\n") == place.format(comment).count("\n")


@pytest.mark.parametrize("comment", HARMLESS)
def test_another_comment_is_copied(comment: str) -> None:
    text = f"{comment}\n{HOST}"

    assert redacted_yaml(text) == text


def test_a_comment_that_repeats_a_secret_of_the_file_is_not_copied() -> None:
    text = HOST + "  env: {DB_PASS: swordfish}  # like swordfish, but older\n"

    assert "swordfish" not in redacted_yaml(text)


def test_a_comment_behind_the_mark_of_a_block_is_one() -> None:
    text = HOST + "  env:\n    NOTE: |  # token=hunter2\n      # MODE=fast\n    MODE: fast\n"
    shown = redacted_yaml(text)

    assert "hunter2" not in shown
    assert yaml.safe_load(shown) == yaml.safe_load(text)


def test_what_looks_like_a_comment_within_a_text_stays_there() -> None:
    text = HOST + "  env: {NOTE: 'a # b', URL: http://x/#y}\ncommand: [echo, \"# c\"]\n"

    assert redacted_yaml(text) == text


# ---- drawn at random
SECRET = "hunter2-hunter2"
NAMES = st.sampled_from(["DB_PASS", "API_KEY", "EPOCHS", "MODE", "JWT", "SENTRY_DSN", "PATH", "url"])
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Nd"]), max_size=20),
    st.sampled_from([f"https://u:{SECRET}@h", f"a\npassword={SECRET};b", f"{SECRET} # x", "3", "true", "a: b", "- x"]),
)
COMMAND = st.lists(
    st.sampled_from(
        ["python", "t.py", "--epochs", "3", f"--api-key={SECRET}", f"API_TOKEN={SECRET}", "a b", "'", '"', "é"]
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(
    env=st.dictionaries(NAMES, VALUES, max_size=5),
    command=st.one_of(COMMAND, COMMAND.map(" ".join)),
    style=st.sampled_from([None, "'", '"', "|", ">"]),
    flow=st.sampled_from([True, False, None]),
)
def test_a_copy_has_the_structure_of_the_file_and_none_of_its_secrets(
    env: dict[str, str], command: Any, style: str | None, flow: bool | None
) -> None:
    env |= {"MY_TOKEN": SECRET}
    cluster = {"hosts": [{"host": "localhost", "env": env}], "defaults": {"env": env}, "command": command}
    text = yaml.safe_dump(cluster, default_style=style, default_flow_style=flow, allow_unicode=True)

    shown = redacted_yaml(text)

    assert SECRET not in shown
    assert known_secret_gone(yaml.safe_load(shown)) == known_secret_gone(yaml.safe_load(text))
    assert redacted_yaml(shown) == shown


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "cluster_configs").glob("*.yaml"))
PIECES = [*"{}[],:?-#&*!|>'\"%\t \n", "\r\n", "\u2028", "---\n", "!!str ", "&a x", "*a", ": ", "- ", "|2\n", "\\x41"]


def meaning(text: str) -> Any:
    """What a file says; None: it cannot be read."""
    mistakes = Mistakes("c.yaml")
    try:
        root = parse(text, mistakes)
        mistakes.check()
    except ClusterFileError:
        return None

    def said(node: Any) -> Any:
        if isinstance(node, YamlMap):
            return {key: said(value) for key, (_, value) in node.entries.items()}
        return [said(item) for item in node.items] if isinstance(node, YamlList) else node.text

    return root and said(root)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_any_file_that_can_be_read_can_be_copied(example: Path, edits: list[tuple[float, str, int]]) -> None:
    text = example.read_text()
    for place, piece, removed in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + removed :]

    if said := meaning(text):
        assert meaning(redacted_yaml(text)) == said
