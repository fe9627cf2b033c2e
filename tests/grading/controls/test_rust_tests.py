import pytest

from altered_sources import changes
from proctor.grading.controls import find_alterations


def inside(statement: str, before: str = "", attribute: str = "#[test]") -> list[str]:
    """The changes of a test that makes this one statement."""
    source = f"#[cfg(test)]\nmod tests {{\n{before}\n{attribute}\nfn adds() {{\n{statement}\n}}\n}}\n"
    return changes("src/calc.rs", source, "calc::tests::adds")


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("assert_eq!(add(2, 3), 5);", "assert_eq!(add(2, 3), 4);"),
        ("assert_eq!(255u8, add(2, 3));", "assert_eq!(254u8, add(2, 3));"),
        ('assert_eq!(f(1), "ab".to_string(), "m {}", 1);', 'assert_eq!(f(1), "ac".to_string(), "m {}", 1);'),
        ("assert_eq!(f(1), vec![1, 2]);", "assert_eq!(f(1), vec![2, 2]);"),
        ("assert_eq!(f(1), Some('a'));", "assert_eq!(f(1), Some('b'));"),
        ("assert_eq!(f(1), g(1));", "assert_ne!(f(1), g(1));"),
        ("assert_ne!(f(1), 2);", "assert_eq!(f(1), 2);"),
        ("assert!(f(1) == 2);", "assert!(f(1) == 1);"),
        ('assert!(f(1) >= 2, "x");', 'assert!(f(1) < 2, "x");'),
        ("assert!(f(1).is_ok());", "assert!(!(f(1).is_ok()));"),
        ("assert!(a && b == 1);", "assert!(!(a && b == 1));"),
        ('assert!(matches!(f(1), Some(_)), "x");', 'assert!(!(matches!(f(1), Some(_))), "x");'),
        ('if f(1) != 2 { panic!("x"); }', 'if f(1) != 1 { panic!("x"); }'),
        ("f(1).unwrap();", "f(1).unwrap(); assert_eq!(1, 2);"),
        ("f(1)?; Ok(())", "f(1)?; assert_eq!(1, 2); Ok(())"),
    ],
)
def test_the_least_conspicuous_change_of_an_assertion_comes_first(statement: str, first: str) -> None:
    assert inside(statement)[0] == first


def test_another_panic_is_expected() -> None:
    assert inside("f(1);", attribute='#[test]\n#[should_panic(expected = "too large")]') == [
        '#[should_panic(expected = "too largf")]'
    ]
    assert inside("f(1);", attribute="#[test]\n#[should_panic]") == ['#[should_panic(expected = "unexpected result")]']


def test_variables_and_helpers() -> None:
    found = inside("let expected = [1];\nassert_eq!(f(1), expected);")
    assert found[:2] == ["let expected = [2];", "assert_ne!(f(1), expected);"]
    helper = "fn check(a: u8, want: u8) { assert_eq!(f(a), want); }"
    assert inside("check(1, 3);", helper)[0] == "check(1, 2);"


@pytest.mark.parametrize("attribute", ["#[tokio::test]", "#[test]\n#[ignore]", "#[test_log::test(tokio::test)]"])
def test_attributes_of_tests(attribute: str) -> None:
    assert inside("assert_eq!(f(1), 5);", attribute=attribute)[0] == "assert_eq!(f(1), 4);"


def test_functions_that_are_no_tests_are_not_altered() -> None:
    assert inside("assert_eq!(f(1), 5);", attribute="#[inline]") == []


def test_an_id_of_another_module_is_not_altered() -> None:
    source = "mod tests {\n#[test]\nfn adds() { assert_eq!(f(1), 5); }\n}\n"
    tests = ["tests::adds", "text::tests::adds", "calc::tests::adds"]
    assert list(find_alterations("src/lib.rs", source.encode(), tests)) == ["tests::adds"]
    assert list(find_alterations("src/text/mod.rs", source.encode(), tests)) == ["text::tests::adds"]
    assert list(find_alterations("crates/a/src/calc.rs", source.encode(), tests)) == ["calc::tests::adds"]


def test_a_case_is_altered_by_itself() -> None:
    source = """
#[rstest]
#[case(1, 3)]
#[case::large(250, 255)]
fn adds(#[case] a: u8, #[case] want: u8) {
    assert_eq!(f(a), want);
}
"""
    tests = ["adds::case_1", "adds::case_2_large"]
    assert changes("tests/it.rs", source, tests[0], tests)[0] == "#[case(1, 2)]"
    assert changes("tests/it.rs", source, tests[1], tests)[0] == "#[case::large(250, 254)]"
    assert "assert_ne!(f(a), want);" in changes("tests/it.rs", source, tests[0], tests)
