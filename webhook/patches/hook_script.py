"""The shell script that tells the node id to the collector: a postStart hook of the Ray container.

Only a fallback: the collector reads the id from the names of Ray's port files. Kept for images
and readers that expect the files of both guides (`raylet_node_id` of KubeRay 1.6,
`alibabacloud_raylet_node_id` of Container Service for Kubernetes, and `init.log`).

The kubelet runs a hook before it starts the next container, and a failing hook kills Ray
(kubernetes/kubernetes#37805, #81450). So the search runs in the background with all streams
closed (an open one keeps the hook waiting), ends after 250 rounds (less than 300 s), and the
hook itself ends at once: with 0, or as the user's own command, which takes its place unchanged.

Slim images lack `ps`, and `grep` may lack `-P`: /proc is read instead. Ray's raylet alone has an
argument `--node_id=`; its agents have `--node-id=`.
"""

from __future__ import annotations

MARK = "rayhs-node-id"
"""Name of the script (`$0`), by which our hook is recognised."""

SCRIPT = r"""dir=$1
shift
(
  trap '' HUP
  umask 022
  round=0
  while [ "$round" -lt 250 ]; do
    round=$((round + 1))
    id=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' '\n' |
      sed -n 's/^--node_id=\([0-9a-f]\{56\}\)$/\1/p' | head -n 1)
    if [ -n "$id" ] && [ -d "$dir" ]; then
      for name in raylet_node_id alibabacloud_raylet_node_id; do
        echo "$id" >"$dir/.$name.new" && mv -f "$dir/.$name.new" "$dir/$name"
      done
      echo "$(date) raylet started: $id" >>"$dir/init.log"
      break
    fi
    sleep 1
  done
) </dev/null >/dev/null 2>&1 &
[ "$#" -eq 0 ] || exec "$@"
exit 0
"""


def command(temp_dir: str, user_argv: list[str]) -> list[str]:
    """The hook's command. The user's own argv, when there is one, becomes the hook's end."""
    return ["/bin/sh", "-c", SCRIPT, MARK, temp_dir, *user_argv]
