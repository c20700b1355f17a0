"""Runs gangs as processes of this machine.

`engine.LocalEngine` is what the service holds. It starts one *keeper* a gang attempt (`keeper/`): a small process that
is the parent of the tasks and outlives the service. The two meet in the run folder (`run_folder`) only.

The keeper imports the modules of this folder that both sides need: `cgroups`, `cgroup_places`, `claim`, `log_segments`,
`processes`, `run_folder`, `status`, `stop_file`, `whole_file`. Those, and this file, import nothing but cheap parts of
the standard library, because hundreds of keepers may start at once.
"""
