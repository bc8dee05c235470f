"""`python -m tests.cluster`: a Kubernetes with the product on it, to look around; Ctrl-C ends it."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster import build, images
from tests.cluster.node import Node, obstacles
from tests.e2e.platform import Platform


def main() -> int:
    """Start, tell how to use it, wait for Ctrl-C."""
    build.build("node")
    if reasons := obstacles():
        print("\n".join(reasons), file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="node-"))
    node = Node.start(folder, images=images.build_all())
    try:
        platform = Platform.install(node, folder)
        print(f"export KUBECONFIG={node.kubeconfig} PATH={build.folder()}:$PATH")
        print(f"history server: {platform.server_url}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
        platform.close()
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
