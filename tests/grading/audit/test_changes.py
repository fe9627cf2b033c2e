from hypothesis import given
from hypothesis import strategies as st

from grading.tree_changes import tree_change
from proctor.core.trees import EXECUTABLE, FILE, LINK, FileEntry
from proctor.grading.audit import ChangedFile, ChangeKind, changed_files
from proctor.workspaces import TreeChange


def by_path(changes: tuple[ChangedFile, ...]) -> dict[str, ChangedFile]:
    return {change.path: change for change in changes}


files = st.dictionaries(st.sampled_from(["a", "b/c"]), st.lists(st.sampled_from("xyz"), max_size=6).map("\n".join))


@given(files, files)
def test_trees_are_compared_file_by_file(before: dict[str, str], after: dict[str, str]) -> None:
    changes = by_path(changed_files(tree_change(before, after)))
    assert set(changes) == {name for name in {*before, *after} if before.get(name) != after.get(name)}
    for name, change in changes.items():
        assert all(after[name].split("\n")[number - 1] == text for number, text in change.added)
        if change.kind is not ChangeKind.RENAMED:
            assert change.kind is (
                ChangeKind.ADDED
                if name not in before
                else ChangeKind.DELETED
                if name not in after
                else ChangeKind.CHANGED
            )


def test_a_file_with_the_same_content_under_another_name_was_renamed() -> None:
    changes = by_path(changed_files(tree_change({"tests/test_a.py": "x = 1\n"}, {"old/a.py": "x = 1\n"})))
    assert changes["tests/test_a.py"].kind is ChangeKind.DELETED
    renamed = changes["old/a.py"]
    assert (renamed.kind, renamed.old_path, renamed.added) == (ChangeKind.RENAMED, "tests/test_a.py", ())


def test_a_path_that_changes_its_file_type_is_read_as_new() -> None:
    changes = by_path(changed_files(tree_change({"a.txt": "x = 1\n"}, {"a.py": "x = 1\n"})))
    assert {path: change.kind for path, change in changes.items()} == {
        "a.txt": ChangeKind.DELETED,
        "a.py": ChangeKind.ADDED,
    }
    assert changes["a.py"].added == ((1, "x = 1"), (2, ""))


def test_a_file_that_becomes_a_link_of_the_same_text_is_a_change() -> None:
    change = TreeChange(before={"a": FileEntry(FILE, b"/etc")}, after={"a": FileEntry(LINK, b"/etc")})
    (found,) = changed_files(change)
    assert (found.kind, found.mode, found.added) == (ChangeKind.CHANGED, LINK, ((1, "/etc"),))


def test_a_change_of_the_mode_alone_is_a_change() -> None:
    change = TreeChange(before={"a": FileEntry(FILE, b"x")}, after={"a": FileEntry(EXECUTABLE, b"x")})
    (found,) = changed_files(change)
    assert (found.kind, found.mode, found.added, found.removed) == (ChangeKind.CHANGED, EXECUTABLE, (), ())
