"""Samples of every trace format."""

from pathlib import Path

from gpusquad.sim.traces import Trace, TraceJob

SWF = """\
; Version: 2.2
; MaxProcs: 100

    1   0  10  97 56 -1 -1 56 210 -1  1  7  3  4  2 -1 -1 -1
    2   5  10  40 -1 -1 -1  4  -1 -1  0 -1 -1 -1 -1  9 -1 -1
    3   5  10  50  2 -1 -1  2  30 -1  1  7  3 -1 -1 -1 -1 -1
"""
NEVER_RAN = "    4   6  -1   0 -1 -1 -1 -1  -1 -1  5  7  3 -1 -1 -1 -1 -1\n"

PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,vc1
2017-10-09 07:00:55,10.5,16,160.0,vc2
2017-10-09 07:00:56,10,12,160.0,vc2
2017-10-09 07:00:57,10,20,160.0,vc2
"""

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,6000,1024,1,460,V100M16|V100M32|V100M32,LS,Running,10,100,20
b,6000,1024,8,1000,,BE,Failed,11,100,
c,8000,1024,0,0,,BE,Succeeded,12,12,12
"""

GAVEL = """\
trace,job_type,scale_factor,total_steps,arrival_time_s,priority_weight,slo
t1,A (batch size 1),1,100,0.5,,
t2,A (batch size 1),16,100,6.0,,
"""
SHOCKWAVE = """\
trace,job_type,scale_factor,total_steps,mode,priority_weight,slo,duration_s,arrival_time_s
"120,x",A (batch size 1),2,100,gns,1,-1.0,1418,55
"""
THROUGHPUTS = {
    "v100": {
        "('A (batch size 1)', 1)": {"null": 2.0, "('A (batch size 1)', 1)": [1.5, 1.5], "('B', 1)": [0.0, 0.0]},
        "('B', 1)": {"null": 4.0, "('A (batch size 1)', 1)": [0.0, 0.0], "('B', 1)": [4.4, 4.4]},
        "('A (batch size 1)', 8)": {"null": 10.0, "('B', 8)": [1.0, 1.0]},
    }
}

SIA = """\
set,workload,name,time,application,num_replicas,batch_size
philly,w-1,bert-0,1.5,bert,2,16
philly,w-2,bert-0,2,bert,2,96
"""
SIA_STEPS = "application,batch_size,progress,iteration,metric\nbert,16,5,50,1\nbert,16,9,100,1\nbert,96,9,10,1\n"
SIA_TIMES = """\
application,gpu_type,placement,local_bsz,step_time,sync_time
bert,aws,11,4,9.0,0.1
bert,aws,2,4,0.5,0.1
bert,aws,2,12,0.9,0.1
"""
SIA_LARGE = "application,gpu_type,num_nodes,num_replicas,local_bsz,step_time,sync_time\nbert,aws,6,24,4,1.0,0.5\n"

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
0,16,1500,10,bert,4,927475000,0,190,0.5,95,18,0
"""

CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc_a,1,100,10,vgg16,96,5,159-189,10-8,0,soft
1,vc_b,0,101,10,vgg16,30,5,14341,10,1,best
"""

JSONL = """\
{"id": "a", "gpus": 1, "submitted": 2, "run": "1m", "workload": "W"}

{"id": "b", "roles": [{"name": "x", "cpu": 1}], "run": 5, "outcome": "failed"}
"""


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def by_id(trace: Trace) -> dict[str, TraceJob]:
    return {row.job.id: row for row in trace.jobs}
