#!/bin/bash
python3 -c "from urllib.request import urlopen; open('note.txt', 'wb').write(urlopen('http://store:8000/note.txt').read())"
