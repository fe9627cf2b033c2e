import json
from pathlib import Path


def test_prime():
    assert json.loads(Path('/app/answer.json').read_text())['prime'] == 101
