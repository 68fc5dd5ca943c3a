"""What runs inside the sandbox. It imports nothing of ours, so that nothing else has to be readable there.

main    the tests' process: starts the program's process, runs the tests, and reports the result
peer    calls from one process to objects of the other
kernel  limits of resources, seccomp, namespaces and Landlock
"""

#: The first line of the output. Without it, the sandbox did not come into being, and nothing is known of the program.
STARTED = b"started\n"
