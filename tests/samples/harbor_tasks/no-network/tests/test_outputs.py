from pathlib import Path


def test_it():
    assert Path('/app/mode.txt').read_text() == 'offline\n'
