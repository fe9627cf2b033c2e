import socketserver


class Inbox(socketserver.StreamRequestHandler):
    def handle(self):
        with open('/srv/inbox.txt', 'ab') as file:
            file.write(self.rfile.readline())


socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('', 9000), Inbox).serve_forever()
