"""Object keys and object storage backends.

Called by the collector (which writes) and the history server (which reads, and
stores compiled sessions back). Imports none of our other packages. Whatever both
sides must agree on, object keys first, lives here.
"""
