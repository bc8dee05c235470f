"""The compiled session's tables. A change here is a new `SCHEMA_VERSION`: old files are made anew.

Why so: a page of tasks is one range of `row`, since rows lie in start order; strings that repeat
(names, states, JSON of resources and runtime environments) are integers of `strings`; what is
particular to one attempt lies in packed chunks that lists never touch.
"""

from __future__ import annotations

SCHEMA_VERSION = 2

TABLES = """
-- JSON values by name: see compiled/meta.py for the keys.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The dictionary. Id 0 is never used; a column that refers to it is NULL when absent.
CREATE TABLE strings (id INTEGER PRIMARY KEY, value TEXT NOT NULL);

-- One row per task attempt, in the order (start or creation, task id, attempt).
-- Columns marked s are ids of `strings`.
CREATE TABLE tasks (
  row INTEGER PRIMARY KEY,
  task_id BLOB NOT NULL,          -- 24 bytes
  attempt INTEGER NOT NULL,
  job INTEGER,                    -- s: hex job id
  state INTEGER NOT NULL,         -- s: Ray's TaskStatus name, after closing
  type INTEGER,                   -- s: NORMAL_TASK, ACTOR_TASK, ACTOR_CREATION_TASK, DRIVER_TASK
  name INTEGER,                   -- s
  func INTEGER,                   -- s: func_or_class_name
  language INTEGER,               -- s
  node INTEGER,                   -- s: hex node id
  worker INTEGER,                 -- s: hex worker id
  pid INTEGER,
  actor INTEGER,                  -- s: hex actor id
  parent BLOB,                    -- 24 bytes: parent task id
  placement_group INTEGER,        -- s: hex
  error_type INTEGER,             -- s
  required_resources INTEGER,     -- s: JSON object
  runtime_env INTEGER,            -- s: Ray's serializedRuntimeEnv
  label_selector INTEGER,         -- s: JSON object
  call_site INTEGER,              -- s
  creation_ms INTEGER,
  start_ms INTEGER,
  end_ms INTEGER,
  detail INTEGER NOT NULL,        -- compiled.details: number of its folding.records.TaskDetail
  debugger_paused INTEGER,        -- 0, 1, or NULL when nobody told
  stdout_start INTEGER,           -- where the attempt's output starts, when Ray's events do
  stderr_start INTEGER            -- not tell but the attempt before on its worker does
);

-- Details of tasks, many in a chunk: see compiled/details.py.
CREATE TABLE task_details (chunk INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- Exact counts over all attempts, for summaries without a scan.
CREATE TABLE task_counts (
  job INTEGER, func INTEGER, type INTEGER, state INTEGER, attempts INTEGER NOT NULL
);

CREATE TABLE actors (
  row INTEGER PRIMARY KEY,        -- in start order
  actor_id TEXT NOT NULL UNIQUE, job_id TEXT, state TEXT, class_name TEXT, name TEXT,
  ray_namespace TEXT, node_id TEXT, pid INTEGER,
  body BLOB NOT NULL              -- folding.records.ActorRecord, msgpack
);
CREATE TABLE jobs (
  row INTEGER PRIMARY KEY,        -- in start order
  job_id TEXT NOT NULL UNIQUE, submission_id TEXT,
  body BLOB NOT NULL              -- folding.records.JobRecord, msgpack
);
CREATE TABLE nodes (
  row INTEGER PRIMARY KEY,        -- in start order
  node_id TEXT NOT NULL UNIQUE, state TEXT, is_head INTEGER NOT NULL, ip_address TEXT,
  hostname TEXT,
  body BLOB NOT NULL              -- folding.records.NodeRecord, msgpack
);
CREATE TABLE workers (
  row INTEGER PRIMARY KEY,
  worker_id TEXT NOT NULL UNIQUE, node_id TEXT, pid INTEGER,
  body BLOB NOT NULL              -- folding.records.WorkerRecord, msgpack
);

-- Ray's own cluster events, from logs/events/event_*.log, in time order.
CREATE TABLE cluster_events (
  row INTEGER PRIMARY KEY,
  event_id TEXT NOT NULL UNIQUE, job_id TEXT, source_type TEXT, severity TEXT,
  timestamp_ms INTEGER NOT NULL,
  body TEXT NOT NULL              -- the line as Ray wrote it, JSON
);

-- What the live dashboard answered last. `name` is the request path with its query as the
-- collector asked it; `item` is '' for a whole answer, or the entity's id where the answer is a
-- collection (then '' holds the answer with the collection emptied).
CREATE TABLE snapshots (
  name TEXT NOT NULL, item TEXT NOT NULL, taken_ms INTEGER NOT NULL,
  body BLOB NOT NULL,             -- JSON, zstd
  PRIMARY KEY (name, item)
) WITHOUT ROWID;

-- Log files and where their bytes are.
CREATE TABLE log_files (
  node_id TEXT NOT NULL, path TEXT NOT NULL,   -- below logs/, as `events/event_GCS.log`
  size_bytes INTEGER NOT NULL,
  parts BLOB NOT NULL,            -- msgpack list of reading.source.LogPart
  PRIMARY KEY (node_id, path)
) WITHOUT ROWID;

-- Answers too dear to make per request, ready to send: gzip of the JSON body.
CREATE TABLE rendered (name TEXT PRIMARY KEY, body BLOB NOT NULL);
"""

INDICES = """
CREATE INDEX tasks_by_id ON tasks (task_id, attempt);
CREATE INDEX tasks_by_state ON tasks (state);
CREATE INDEX tasks_by_name ON tasks (name);
CREATE INDEX tasks_by_func ON tasks (func);
CREATE INDEX tasks_by_job ON tasks (job);
CREATE INDEX tasks_by_node ON tasks (node);
CREATE INDEX tasks_by_worker ON tasks (worker);
CREATE INDEX tasks_by_pid ON tasks (pid);
CREATE INDEX tasks_by_actor ON tasks (actor) WHERE actor IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (parent);
CREATE INDEX tasks_by_error ON tasks (error_type) WHERE error_type IS NOT NULL;
CREATE UNIQUE INDEX strings_by_value ON strings (value);
CREATE INDEX jobs_by_submission ON jobs (submission_id);
"""
