from pathlib import Path


def test_it():
    assert Path('/app/log.txt').read_text().split()[-1] == 'alpha'
