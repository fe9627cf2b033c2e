import json

from hypothesis import given
from hypothesis import strategies as st

from proctor.gateway.redact import KEY_PATTERN, REDACTED, Redactor, Secret


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("sk-ant-dummy")
    assert f"{secret} {secret!r} {[secret]}" == f"{REDACTED} {REDACTED} [{REDACTED}]"
    assert secret.reveal() == "sk-ant-dummy"


def test_known_secrets_and_whatever_looks_like_a_key_are_taken_out() -> None:
    redactor = Redactor(["token-one"])
    text = "a token-one, sk-ant-api03-dummy_key-9, Authorization: Bearer abc.def-ghi_123456"
    assert redactor.redact_text(text) == f"a {REDACTED}, {REDACTED}, Authorization: {REDACTED}"


def test_a_secret_inside_another_leaves_nothing_behind() -> None:
    assert Redactor(["abcd", "abcdefgh"]).redact_text("x abcdefgh y") == f"x {REDACTED} y"


def test_values_too_short_to_be_secrets_are_not_redacted() -> None:
    assert Redactor(["a", ""]).redact_text("a banana") == "a banana"


PIECES = st.sampled_from(
    ["sk-ant-", "sk-proj-", "Bearer ", "BEARER\t", "AIza", "a1B2-c3_" * 5, " ", "x", "\u00fc", "sk", "-"]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_keys_are_found_wherever_the_whole_pattern_finds_them(text: str) -> None:
    data = text.encode()
    assert Redactor().redact_bytes(data) == KEY_PATTERN.sub(REDACTED.encode(), data)


JSON_VALUES = st.recursive(
    st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON_VALUES)
def test_redacted_json_is_still_json(value: object) -> None:
    secret = "5ecret-5ecret"
    data = json.dumps({"value": value, "secret": f'say {secret} "loud" Bearer {secret}'}).encode()
    clean = json.loads(Redactor([secret]).redact_bytes(data))
    assert secret not in json.dumps(clean)
    assert clean.keys() == {"value", "secret"}
