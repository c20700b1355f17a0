"""Runs gangs as processes of this machine.

The service uses `engine.LocalEngine`. It starts one *supervisor* per gang attempt (`supervisor/`): a small process that
is the parent of the tasks and outlives the service. The two communicate only through the run folder (`run_folder`).

The supervisor imports the modules of this folder that both sides need: `atomic_file`, `cgroup_bases`, `cgroups`,
`claim`, `log_segments`, `processes`, `run_folder`, `status`, `stop_file`. Those, and this file, import only cheap parts
of the standard library, because hundreds of supervisors may start at once.
"""
