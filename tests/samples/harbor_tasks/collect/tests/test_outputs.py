from pathlib import Path


def test_it():
    assert Path('/app/sum.txt').read_text() == '42\n'
