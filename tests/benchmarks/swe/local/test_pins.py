"""Official conda environments, read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paths import sample_data, shared_data
from proctor.benchmarks.swe.local.pins import read_pins
from proctor.core.errors import InvalidData

ENVIRONMENT = """\
name: testbed
channels:
  - defaults
dependencies:
  - _libgcc_mutex=0.1=main
  - openssl=3.0.15=h5eee18b_0
  - pip=24.2=py39h06a4308_0
  - python=3.9.20=he870216_1
  - setuptools=75.1.0=py39h06a4308_0
  - wheel=0.44.0=py39h06a4308_0
  - mpmath=1.3.0=py39h06a4308_0
  - zipp=3.17.0=pyhd8ed1ab_0
  - asciitree=0.3.3=py_2
  - typing-extensions=4.12.2=hd8ed1ab_0
  - msgpack-python=1.0.3=py39hf939315_1
  - matplotlib-base=3.9.2=py39h16632d1_0
  - numpy-base=1.19.2=py39h75fe3a5_0
  - pip:
      - Flask_Login==0.6.2
      - mpmath==1.2.1
prefix: /opt/miniconda3/envs/testbed
"""


def test_what_pip_can_install_is_told_from_what_any_interpreter_has() -> None:
    pins = read_pins(ENVIRONMENT, where="x")
    assert pins.python == "3.9"
    assert pins.tools == ("pip==24.2", "setuptools==75.1.0", "wheel==0.44.0")
    assert set(pins.packages) == {
        "mpmath==1.2.1",  # what pip put over conda's own
        "zipp==3.17.0",
        "asciitree==0.3.3",
        "msgpack==1.0.3",
        "matplotlib==3.9.2",
        "Flask_Login==0.6.2",
    }
    assert pins.conda_only == ()


def test_packages_that_only_conda_has_are_named() -> None:
    text = ENVIRONMENT.replace("  - zipp=", "  - cdms2=3.1.5=py39h1_0\n  - zipp=")
    assert read_pins(text, where="x").conda_only == ("cdms2",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "no dependencies"),
        ("dependencies: 3", "no dependencies"),
        ("dependencies:\n  - pip=24.2=py39_0", "names no Python"),
    ],
)
def test_an_unreadable_environment_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        read_pins(text, where="x")


@pytest.mark.parametrize(
    ("data", "count", "by_conda", "by_pip", "pin"),
    [
        pytest.param(sample_data, 3, "acme__abacus-31", "acme__abacus-7", "pytest==8.3.2", id="our-sample"),
        pytest.param(shared_data, 10, "sympy__sympy-20590", "pallets__flask-5014", "werkzeug==2.3.7", id="real-sample"),
    ],
)
def test_every_official_environment_at_hand_can_be_read(
    data: Callable[..., Path], count: int, by_conda: str, by_pip: str, pin: str
) -> None:
    files = sorted(data("swe_bench_tasks").glob("*/environment.yml"))
    read = {file.parent.name: read_pins(file.read_text(), where=file) for file in files}
    assert len(read) == count
    assert read[by_conda].python == "3.9"
    assert any(found.startswith("mpmath==") for found in read[by_conda].packages)
    assert pin in read[by_pip].packages
    assert all(pins.tools and not pins.conda_only for pins in read.values())
