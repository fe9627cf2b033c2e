from pathlib import Path


def test_it():
    assert Path('/app/note.txt').read_text() == 'remember\n'
