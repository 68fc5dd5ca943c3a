"""What all models behind a server share, whatever protocol it speaks.

model        ServerModel and ChatServer: arguments, identity, the client
client       sends requests concurrently, and again after a failure
schedule     which request is sent next, and how many at a time
exchange     one request and its answer
http_client  connections that end in time, and answers that stay within their limits
secrets      keys and passwords, which are shown nowhere
fingerprint  what a server says about itself
messages     the messages of a request, with their media
generation   generation arguments, and completions that are cut as the request says
"""
