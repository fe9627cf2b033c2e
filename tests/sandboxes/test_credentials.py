import json
import os
from pathlib import Path

import pytest

from proctor.core.errors import UsageError
from proctor.sandboxes.credentials import Credentials, link_credentials

from .support import CREDENTIALS, credentials_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return _home(tmp_path / "home")


def _home(path: Path) -> Path:
    (path / "claude-config" / "default").mkdir(parents=True)
    return path


def test_the_seed_is_merged_over_the_account(home: Path, account: Path) -> None:
    Credentials(account).write(home, b'{"hasCompletedOnboarding": true, "numStartups": 0, "oauthAccount": {"x": 1}}')
    merged = json.loads((home / CREDENTIALS[0]).read_bytes())
    assert merged == {
        "oauthAccount": {"accountUuid": "0000", "emailAddress": "dummy@example.org", "x": 1},
        "numStartups": 0,
        "hasCompletedOnboarding": True,
    }


def test_without_a_seed_the_account_is_copied_byte_by_byte(home: Path, account: Path) -> None:
    Credentials(account).write(home, None)
    assert (home / CREDENTIALS[0]).read_bytes() == (account / ".claude.json").read_bytes()


def test_only_the_owner_can_read_them_whatever_the_umask(home: Path, account: Path) -> None:
    before = os.umask(0o777)
    try:
        Credentials(account).write(home, b"{}")
    finally:
        os.umask(before)
    for name in CREDENTIALS:
        assert (home / name).stat().st_mode & 0o777 == 0o600


def test_no_source_and_an_empty_source_give_none(home: Path, tmp_path: Path) -> None:
    Credentials(None).write(home, None)
    (tmp_path / "empty").mkdir()
    Credentials(tmp_path / "empty").write(home, None)
    assert credentials_of(home) == {}


def test_a_source_that_cannot_be_used_is_refused(tmp_path: Path, account: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        Credentials(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is not a directory"):
        Credentials(account / ".claude.json")
    for broken in ("{", "[]", "\udc80"):
        (account / ".claude.json").write_bytes(broken.encode("utf-8", "surrogateescape"))
        with pytest.raises(UsageError, match="is not"):
            Credentials(account)
    (account / ".claude.json").unlink()
    os.mkfifo(account / ".claude.json")
    with pytest.raises(UsageError, match="not a plain file"):
        Credentials(account)


def test_the_very_files_are_carried_over(home: Path, account: Path, tmp_path: Path) -> None:
    Credentials(account).write(home, b"{}")
    new = _home(tmp_path / "new")
    link_credentials(home, new, b'{"seed": true}')
    assert credentials_of(new) == credentials_of(home)
    assert all((new / name).samefile(home / name) for name in CREDENTIALS)


def test_every_profile_keeps_its_credentials_and_nothing_else(home: Path, tmp_path: Path) -> None:
    for name in ("claude-config/work/.credentials.json", "claude-config/work/x", "codex-config/default/auth.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("dummy")
    new = _home(tmp_path / "new")
    link_credentials(home, new, b"{}")
    files = {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()}
    assert files == {
        "claude-config/default/.claude.json",  # the seed
        "claude-config/work/.credentials.json",
        "codex-config/default/auth.json",
    }


def test_where_hard_links_cannot_be_made_they_are_copied(
    home: Path, account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Credentials(account).write(home, b"{}")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    new = _home(tmp_path / "new")
    link_credentials(home, new, b"{}")
    assert credentials_of(new) == credentials_of(home)
    assert (new / CREDENTIALS[1]).stat().st_mode & 0o777 == 0o600
    assert not (new / CREDENTIALS[1]).samefile(home / CREDENTIALS[1])


def test_symlinks_are_kept_as_they_are_and_never_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".credentials.json").write_text("outside")
    (home / CREDENTIALS[1]).symlink_to(outside / ".credentials.json")
    (home / "claude-config" / "linked").symlink_to(outside)
    (home / "codex-config").symlink_to(outside)
    new = _home(tmp_path / "new")
    link_credentials(home, new, b"{}")
    assert (new / CREDENTIALS[1]).readlink() == outside / ".credentials.json"
    assert not (new / "claude-config" / "linked").exists()
    assert not (new / "codex-config").exists()


def test_special_files_are_not_copied(home: Path, tmp_path: Path) -> None:
    (home / CREDENTIALS[0]).mkdir()
    os.mkfifo(home / CREDENTIALS[1])
    new = _home(tmp_path / "new")
    link_credentials(home, new, b"{}")
    assert (new / CREDENTIALS[0]).read_bytes() == b"{}"
    assert not os.path.lexists(new / CREDENTIALS[1])
