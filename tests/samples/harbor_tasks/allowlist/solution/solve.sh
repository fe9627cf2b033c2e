#!/bin/bash
python3 - >status.txt <<'END'
from urllib.error import HTTPError
from urllib.request import urlopen

try:
    print(urlopen('http://refused.proctor.test/').status)
except HTTPError as error:
    print(error.code)
END
