from pathlib import Path


def test_it():
    assert Path('/app/done.txt').read_text() == 'done'
