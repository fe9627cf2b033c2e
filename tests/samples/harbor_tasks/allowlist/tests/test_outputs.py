from pathlib import Path


def test_it():
    assert Path('/app/status.txt').read_text() == '403\n'
