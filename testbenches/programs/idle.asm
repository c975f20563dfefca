# Nothing: the core waits for its host (docs/power.md).
signal 1
