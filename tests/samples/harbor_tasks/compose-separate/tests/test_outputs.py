from pathlib import Path


def test_it():
    assert Path('/srv/evidence.txt').read_text() == 'parcel\n'
