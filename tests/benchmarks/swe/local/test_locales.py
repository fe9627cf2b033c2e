"""Locales of official scripts, on machines that have them and machines that do not."""

import locale
import os
import shutil
import subprocess
import sys

import pytest

from proctor.benchmarks.swe.local.locales import has_locale, missing_locales, with_present_locales
from proctor.benchmarks.swe.local.official_scripts import adapt_eval_script, locale_deviations

SCRIPT = """\
export LANG={name}
export LANGUAGE=xx_XX:en
export LC_ALL={name}
cat > /dev/null <<'EOF_1'
export LC_ALL={name}
EOF_1
"""
# What Python up to 3.6 goes by; later ones change to UTF-8 by themselves unless they are told not to.
CODESET = "import locale; locale.setlocale(locale.LC_CTYPE, ''); print(locale.nl_langinfo(locale.CODESET))"
MISSING = "xx_XX.UTF-8"


def _codeset(script: str) -> str:
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "-c", f'{script}\n"$0" -X utf8=0 -c "{CODESET}" 2>&1 | tail -n 1', sys.executable],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(not has_locale("C.UTF-8"), reason="this C library has no C.UTF-8")
def test_where_the_official_locale_is_missing_tests_still_run_in_utf8() -> None:
    script = SCRIPT.format(name=MISSING)
    assert "unsupported locale setting" in _codeset(script)
    assert _codeset(adapt_eval_script(script)) == "UTF-8"
    assert locale_deviations(script) == ()


def test_the_c_library_is_asked_without_changing_this_process() -> None:
    before = locale.setlocale(locale.LC_ALL)
    assert has_locale("C")
    assert not has_locale(MISSING)
    assert locale.setlocale(locale.LC_ALL) == before


def test_a_locale_that_is_there_stays_and_so_does_what_names_none() -> None:
    for line in ("export LC_ALL=en_US.UTF-8", "LANG='en_US.utf8' ./run", "export LANGUAGE=en_US:en", "export LC_ALL=C"):
        assert with_present_locales(line, {"en_US.UTF-8", "en_US.utf8", "C.UTF-8"}.__contains__) == line
    assert with_present_locales("export LC_ALL=C XLANG=de_DE.UTF-8", {"C.UTF-8"}.__contains__) == (
        "export LC_ALL=C XLANG=de_DE.UTF-8"
    )


def test_a_missing_one_is_replaced_by_the_first_that_is_there() -> None:
    line = """LC_ALL=de_DE.utf8@euro LANG="en_US.UTF-8" ./run --name=de_DE.UTF-8"""
    assert with_present_locales(line, {"C.UTF-8"}.__contains__) == (
        """LC_ALL=C.UTF-8 LANG="C.UTF-8" ./run --name=de_DE.UTF-8"""
    )
    assert with_present_locales(line, {"en_GB.UTF-8"}.__contains__).startswith("LC_ALL=en_GB.UTF-8 ")


def test_where_there_is_none_at_all_the_deviation_is_said() -> None:
    script = SCRIPT.format(name="en_US.UTF-8")
    assert adapt_eval_script(script, has=lambda _: False) == script
    assert missing_locales("export LC_ALL=en_US.UTF-8 LANG=C", lambda _: False) == ("en_US.UTF-8",)
    assert locale_deviations(script, has=lambda _: False) == ("no UTF-8 locale instead of en_US.UTF-8",)


def test_here_documents_keep_their_text() -> None:
    adapted = adapt_eval_script(SCRIPT.format(name=MISSING), has={"C.UTF-8"}.__contains__)
    assert adapted.split("\n")[4] == f"export LC_ALL={MISSING}"
    assert adapted.split("\n")[2] == "export LC_ALL=C.UTF-8"
