"""What all models behind a server share, whatever protocol it speaks.

model        ServerModel and ChatServer: arguments, identity, the client
client       sends requests concurrently, and again after a failure
schedule     which request is sent next, and how many are in flight
exchange     one request and its response
http_client  limits on the time of a request and the size of a response
secrets      keys and passwords, which are never shown
fingerprint  what a server says about itself
messages     the messages of a request, with their media
generation   generation arguments, and completions that are cut as the request says
"""
