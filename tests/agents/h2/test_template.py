"""Pod templates are found, read and checked."""

from pathlib import Path

import pytest

from proctor.agents.h2.template import load_checked_template, load_template
from proctor.core.errors import UsageError

PODS = {
    "pods/duo.yaml": b"agents: []\n",
    "pods/benchmark.yaml.tmpl": b"variables:\n  n: {}\n  model:\n    default: x\nagents:\n",
}
BAD = {
    "missing": ({}, "needs the variable 'n'"),
    "unknown": ({"n": "1", "k": "2"}, "no variable 'k'; it takes model, n"),
    "ours": ({"n": "1", "working_dir": "/"}, "Proctor sets working_dir by itself"),
}


def test_a_template_is_found_by_name_or_file_with_its_variables(tmp_path: Path) -> None:
    assert load_template(None, PODS).declared == {"n": True, "model": False}
    assert load_template("duo", PODS).declared == {}
    file = tmp_path / "pods" / "trio.yaml.tmpl"
    (tmp_path / "pods" / "roles").mkdir(parents=True)
    (tmp_path / "pods" / "roles" / "scout.yaml").write_text("role_name: scout\n")
    file.write_text('# variables: no\nvariables:\n  working_dir: {description: d}\nagents:\n  - name: "{{ .Var.x }}"\n')
    trio = load_template(str(file), PODS)
    assert (trio.name, trio.declared, list(trio.roles)) == ("trio", {"working_dir": True}, ["scout.yaml"])
    before = trio.digest(PODS)
    assert before != trio.digest({}), "the preset's files are a part of the pod"
    (tmp_path / "pods" / "roles" / "scout.yaml").write_text("role_name: scout\ndescription: other\n")
    assert load_template(str(file), PODS).digest(PODS) != before


def test_a_template_is_given_what_it_asks_for_and_what_the_user_says() -> None:
    template = load_template(None, {"pods/benchmark.yaml": b"variables:\n  model: {}\n  n: {default: 1}\n"})
    assert template.values({"n": "3"}, working_dir="/w", model="m") == {"model": "m", "n": "3"}
    assert template.values({"model": "mine"}, working_dir="/w", model="m") == {"model": "mine"}
    assert template.values({}, working_dir="/w", model=None) == {}


@pytest.mark.parametrize(("given", "sentence"), BAD.values(), ids=BAD.keys())
def test_a_template_that_cannot_be_filled_in_is_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_checked_template(None, PODS, given)


def test_a_template_that_is_no_template_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("variables:\n  - [\n")
    with pytest.raises(UsageError, match="variables of the pod template cannot be read"):
        load_template(str(broken), {})
    broken.write_text("variables:\n  - a\n")
    with pytest.raises(UsageError, match="are not a table"):
        load_template(str(broken), {})
    named = tmp_path / "Big Pod.yaml"
    named.write_text("agents: []\n")
    with pytest.raises(UsageError, match="lower-case"):
        load_template(str(named), {})
