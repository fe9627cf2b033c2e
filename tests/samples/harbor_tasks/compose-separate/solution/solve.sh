#!/bin/bash
python3 -c "import socket; s = socket.create_connection(('store', 9000)); s.sendall(b'parcel\n'); s.close()"
sleep 1
