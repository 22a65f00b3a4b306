"""The publisher's kernels, made callable from Python."""

from matchbox.jit import kernel
from matchbox.publish import moldudp64

publish = kernel(moldudp64.publish.py_func, entry=True)
heartbeat = kernel(moldudp64.heartbeat.py_func, entry=True)
end_of_stream = kernel(moldudp64.end_of_stream.py_func, entry=True)
