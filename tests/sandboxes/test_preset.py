import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from proctor.core.errors import UsageError
from proctor.sandboxes.preset import Preset, load_preset, preset_names

BUILT_IN = ["empty", "haiku", "hooks", "opus"]
EVENTS = {
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "UserPromptSubmit",
    "PermissionRequest",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "presets"


def write(folder: Path, toml: str = "", files: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "preset.toml").write_text(toml)
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def settings(preset: Preset) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(preset.files["claude-config/default/settings.json"].content)
    return value


def command(preset: Preset, event: str) -> str:
    return str(settings(preset)["hooks"][event][0]["hooks"][0]["command"])


def test_the_four_presets_are_there_and_say_what_they_are_for(folder: Path) -> None:
    assert preset_names(folder) == BUILT_IN
    assert all(load_preset(name, folder=folder).description for name in BUILT_IN)


def test_empty_has_no_hooks_and_no_roles(folder: Path) -> None:
    preset = load_preset("empty", folder=folder)
    assert settings(preset) == {}
    assert set(preset.files) == {"config.yaml", "claude-config/default/settings.json"}


def test_the_others_send_every_event_to_h2(folder: Path) -> None:
    for name in ("hooks", "haiku", "opus"):
        preset = load_preset(name, folder=folder)
        assert set(settings(preset)["hooks"]) == EVENTS
        for event in EVENTS - {"PermissionRequest"}:
            assert command(preset, event) == "h2 handle-hook"


def test_permissions_are_forced_only_where_no_person_watches(folder: Path) -> None:
    assert command(load_preset("hooks", folder=folder), "PermissionRequest") == "h2 handle-hook"
    for name in ("haiku", "opus"):
        preset = load_preset(name, folder=folder)
        assert command(preset, "PermissionRequest") == "h2 handle-hook --force-permission-request-result allow"
        assert settings(preset)["permissions"]["deny"] == ["AskUserQuestion", "ExitPlanMode"]


def test_no_agent_is_left_to_the_permission_mode_that_its_program_starts_in(folder: Path) -> None:
    assert settings(load_preset("hooks", folder=folder))["permissions"]["defaultMode"] == "default"
    for name in ("haiku", "opus"):
        preset = load_preset(name, folder=folder)
        assert settings(preset)["permissions"]["defaultMode"] == "bypassPermissions"
        roles = [yaml.safe_load(file.content) for path, file in preset.files.items() if path.startswith("roles/")]
        assert {role["claude_permission_mode"] for role in roles} == {"bypassPermissions"}


def test_the_roles_and_their_models(folder: Path) -> None:
    def roles(name: str, model: str | None) -> dict[str, str]:
        preset = load_preset(name, folder=folder)
        files = preset.render(preset.choose_model(model))
        found = [yaml.safe_load(file.content) for path, file in files.items() if path.startswith("roles/")]
        return {role["role_name"]: role["agent_model"] for role in found}

    assert roles("empty", None) == roles("hooks", None) == {}
    assert roles("haiku", None) == {"default": "haiku"}
    four = ["default", "concierge", "coder", "reviewer"]
    assert roles("opus", None) == dict.fromkeys(four, "opus")
    assert roles("opus", "claude-opus-4-5@20251101") == dict.fromkeys(four, "claude-opus-4-5@20251101")


def test_every_start_up_question_of_claude_code_is_answered(folder: Path) -> None:
    for name in BUILT_IN:
        seed = load_preset(name, folder=folder).seed
        assert seed
        answers = json.loads(seed)
        assert answers["hasCompletedOnboarding"] is True
        # Claude Code asks for a directory unless that or one above it is trusted.
        assert answers["projects"]["/"]["hasTrustDialogAccepted"] is True


def test_a_model_is_refused_where_there_is_no_place_for_one_or_it_is_none(folder: Path) -> None:
    with pytest.raises(UsageError, match="sets no model"):
        load_preset("hooks", folder=folder).choose_model("opus")
    for wrong in ("", "--flag", 'a"b', "a b", "a\nb", "{{ x }}"):
        with pytest.raises(UsageError, match="not the name of a model"):
            load_preset("opus", folder=folder).choose_model(wrong)


def test_a_preset_of_the_users_own_is_found_by_name_and_by_path(folder: Path, tmp_path: Path) -> None:
    place = write(folder / "mine", 'description = "mine"', {"roles/a.yaml": "role_name: a"})
    named = load_preset("mine", folder=folder)
    assert named.name == "mine"
    assert named.path is None
    assert named.files["roles/a.yaml"].content == b"role_name: a"
    by_path = load_preset(str(place), folder=tmp_path / "elsewhere")
    assert by_path.path == str(place)
    assert by_path.files == named.files
    assert preset_names(folder) == sorted([*BUILT_IN, "mine"])


def test_a_preset_starts_from_another_and_replaces_what_it_brings_itself(folder: Path) -> None:
    write(folder / "base", 'extends = "opus"', {"roles/coder.yaml.tmpl": "role_name: coder\nx: '@MODEL@'"})
    write(folder / "mine", 'extends = "../base"\nmodel = "sonnet"', {"claude-config/default/.claude.json": "{}"})
    mine, opus = load_preset(str(folder / "mine"), folder=folder), load_preset("opus", folder=folder)
    assert mine.model == "sonnet"
    assert mine.seed == b"{}"
    assert set(mine.files) == set(opus.files)
    assert mine.render("sonnet")["roles/coder.yaml.tmpl"].content == b"role_name: coder\nx: 'sonnet'"
    assert mine.files["roles/reviewer.yaml.tmpl"] == opus.files["roles/reviewer.yaml.tmpl"]


def test_h2s_own_templates_pass_through(folder: Path) -> None:
    text = "working_dir: '{{ .Var.working_dir }}' @MODEL@ {{ .AgentName }}"
    write(folder / "mine", 'model = "m"', {"pods/p.yaml.tmpl": text})
    rendered = load_preset("mine", folder=folder).render("m")
    assert rendered["pods/p.yaml.tmpl"].content == b"working_dir: '{{ .Var.working_dir }}' m {{ .AgentName }}"


def test_a_script_stays_executable(folder: Path) -> None:
    place = write(folder / "mine", "", {"bin/permission.sh": "#!/bin/sh\n", "notes.md": ""})
    (place / "bin/permission.sh").chmod(0o755)
    files = load_preset("mine", folder=folder).files
    assert files["bin/permission.sh"].executable
    assert not files["notes.md"].executable


@pytest.mark.parametrize("name", ["nope", "", "../x", "a/b", "/", "~", ".", "no such", "x" * 5000])
def test_a_folder_that_is_not_a_preset_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(UsageError) as error:
        load_preset(name, folder=folder)
    assert error.value.sentence.isprintable()


def test_the_sentence_names_the_presets_there_are(folder: Path) -> None:
    with pytest.raises(UsageError, match="choose one of: empty, haiku, hooks, opus"):
        load_preset("opsu", folder=folder)


@pytest.mark.parametrize(
    ("toml", "files", "sentence"),
    [
        ("nonsense", {}, "is not TOML"),
        ("\udc80", {}, "cannot read the preset"),
        ("modle = 'x'", {}, "unknown key 'modle'"),
        ("model = 3", {}, "model must be a string"),
        ("model = 'a b'", {}, "not the name of a model"),
        ("extends = 'nope'", {}, "no preset is called 'nope'"),
        ("extends = 'mine'", {}, "extends itself"),
        ("", {"a.yaml": "@MODEL@"}, "names no model"),
        ("", {"sandbox.json": "{}"}, "must not bring this file"),
        ("", {"claude-config/default/.credentials.json": "{}"}, "must not bring this file"),
        ("", {"claude-config/default/.claude.json": "["}, "not valid JSON"),
        ("", {"claude-config/other/settings.json": "[]"}, "not a JSON object"),
    ],
)
def test_a_broken_preset_is_refused(folder: Path, toml: str, files: dict[str, str], sentence: str) -> None:
    write(folder / "mine", "", files)
    (folder / "mine" / "preset.toml").write_bytes(toml.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=sentence):
        load_preset("mine", folder=folder)


def test_symlinks_in_a_preset_are_refused(folder: Path) -> None:
    (write(folder / "mine") / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="plain files"):
        load_preset("mine", folder=folder)


def test_a_preset_cannot_quietly_replace_a_built_in_one(folder: Path) -> None:
    write(folder / "opus")
    with pytest.raises(UsageError, match="also the name of a built-in preset"):
        load_preset("opus", folder=folder)
