"""Every trace reader on a sample of its format, and on the public files if present."""

import csv
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Profile, Request, Role, Share, Slo
from gpusquad.sim.clusters import load_cluster
from gpusquad.sim.colocation import PairTable, load_pairs
from gpusquad.sim.traces import TraceJob, read
from gpusquad.sim.traces._base import Gangs
from gpusquad.sim.traces.openb import CARD_MEMORY, read_openb_nodes
from gpusquad.sim.traces.ours import write_jsonl, write_parquet
from tests.sim.trace_samples import (
    CHRONUS,
    GAVEL,
    JSONL,
    MURI,
    OPENB,
    PHILLY,
    SHOCKWAVE,
    SIA,
    SIA_LARGE,
    SIA_STEPS,
    SIA_TIMES,
    SWF,
    THROUGHPUTS,
    by_id,
    file,
)

S = 1_000_000


def test_swf_file_is_read(tmp_path: Path):
    trace = read(file(tmp_path, "x.swf", SWF))
    assert trace.format == "swf"
    assert trace.cluster is not None
    assert (len(trace.cluster.nodes), trace.cluster.gpus) == (100, 100)
    first, second, third = trace.jobs
    assert first == TraceJob(
        Job("1", (Role("p", 56, Request(gpus=1)),), 0, user="7", queue="2", app="4", estimate_us=210 * S), 97 * S
    )
    # Without used processors: the requested number.
    assert (second.job.gpus, second.job.estimate_us, second.outcome) == (4, None, "failed")
    assert (second.job.user, second.job.queue) == ("", "9")
    assert third.job.estimate_us == 30 * S
    assert first.job.roles[0].request is third.job.roles[0].request


def test_swf_parameters_change_estimates_run_times_and_tenants(tmp_path: Path):
    path = file(tmp_path, "x.swf", SWF)
    assert read(path, "swf:raise_estimates=true").jobs[2].job.estimate_us == 50 * S
    assert read(path, "swf:cut_at_estimate=yes").jobs[2].run_us == 30 * S
    assert read(path, tenant_by="group").jobs[0].job.tenant == "3"
    assert read(path, tenant_by="group").jobs[1].job.tenant == "default"
    with pytest.raises(Invalid, match="parameters: raise_estimates, cut_at_estimate, processors, tenant_by"):
        read(path, raise_the_roof=True)


def test_swf_is_detected_by_content(tmp_path: Path):
    assert read(file(tmp_path, "log.txt", SWF)).format == "swf"


def test_swf_csv_file_is_read(tmp_path: Path):
    text = "job_id,submit_s,run_s,procs,req_time_s,user,wait_easy\n3,10,5,2,300,9,77\n4,11,5,2,-1,9,77\n"
    first, second = read(file(tmp_path, "x.csv", text)).jobs
    assert first.job == Job("3", (Role("p", 2, Request(gpus=1)),), 10 * S, user="9", estimate_us=300 * S)
    assert second.job.estimate_us is None


def test_philly_file_is_read(tmp_path: Path):
    trace = read(file(tmp_path, "x.csv", PHILLY))
    assert [(row.job.id, row.job.submitted_us // S, row.job.tenant) for row in trace.jobs] == [
        ("2", 0, "vc2"), ("3", 1, "vc2"), ("4", 2, "vc2"), ("1", 60, "vc1"),
    ]  # fmt: skip
    shapes = [[(role.count, role.request.gpus) for role in row.job.roles] for row in trace.jobs]
    assert shapes == [[(2, 8)], [(2, 6)], [(2, 8), (1, 4)], [(1, 1)]]
    assert trace.jobs[0].run_us == 10_500_000


@given(st.integers(1, 600), st.integers(1, 16))
def test_gang_is_split_over_nodes_without_changing_its_gpus(gpus: int, node_gpus: int):
    roles = Gangs(node_gpus)(gpus)
    assert sum(role.count * role.request.gpus for role in roles) == gpus
    assert all(role.request.gpus <= node_gpus for role in roles)
    assert sum(role.count for role in roles) == -(-gpus // node_gpus)


def test_openb_pods_are_read(tmp_path: Path):
    rows = by_id(read(file(tmp_path, "x.csv", OPENB)))
    share = Share(460 * CARD_MEMORY // 1000, 460)
    assert rows["a"].job.roles[0].request == Request(
        share=share, cpu_milli=6000, memory_bytes=2**30, gpu_models=("V100M16", "V100M32")
    )
    assert (rows["a"].job.submitted_us, rows["a"].run_us) == (10 * S, 80 * S)
    assert (rows["b"].job.gpus, rows["b"].run_us, rows["b"].outcome) == (8, 89 * S, "failed")
    assert (rows["c"].job.gpus, rows["c"].run_us) == (0, S)


def test_openb_pods_without_times_get_the_given_run_time(tmp_path: Path):
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1,1,1000\n"
    (row,) = read(file(tmp_path, "x.csv", text), run_s=7).jobs
    assert (row.job.submitted_us, row.run_us, row.job.roles[0].request.gpus) == (0, 7 * S, 1)


def test_openb_shares_fill_a_card_exactly(tmp_path: Path):
    path = file(tmp_path, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,2,P100\nn1,32000,1024,0,\n")
    cluster, windows = load_cluster(str(path))
    assert cluster == read_openb_nodes(path)
    assert windows == ()
    assert [len(node.cards) for node in cluster.nodes] == [2, 0]
    card = cluster.nodes[0].cards[0]
    assert (card.id, card.model) == ("n0/0", "P100")
    rows = read(file(tmp_path, "x.csv", OPENB)).jobs
    share = rows[0].job.roles[0].request.share
    assert share is not None
    assert share.memory_bytes * 1000 == card.memory_bytes * share.sm_milli


def test_gavel_file_requires_throughputs(tmp_path: Path):
    path = file(tmp_path, "x.csv", GAVEL)
    with pytest.raises(Invalid, match="gavel:throughputs="):
        read(path, skip_bad=True)
    file(tmp_path, "simulation_throughputs.json", json.dumps(THROUGHPUTS))
    first, second = read(path).jobs
    assert (first.run_us, first.workload, first.job.submitted_us) == (50 * S, "A (batch size 1)", 500_000)
    # 16 GPUs were not measured, so the rate of 8 applies.
    assert second.run_us == 10 * S
    assert [(role.count, role.request.gpus) for role in second.job.roles] == [(2, 8)]
    assert [row.job.id for row in read(path, "gavel:trace=t2").jobs] == ["t2#1"]


def test_shockwave_file_is_read_with_its_durations(tmp_path: Path):
    (row,) = read(file(tmp_path, "x.csv", SHOCKWAVE)).jobs
    assert (row.job.id, row.run_us, row.job.gpus) == ("120,x#1", 1418 * S, 2)


def test_sia_run_times_are_computed_from_profiles(tmp_path: Path):
    path = file(tmp_path, "workloads.csv", SIA)
    with pytest.raises(Invalid, match="sia:profiles="):
        read(path)
    file(tmp_path, "sia_profile_validation.csv", SIA_STEPS)
    file(tmp_path, "sia_profile_placements.csv", SIA_TIMES)
    file(tmp_path, "sia_profile_scalability.csv", SIA_LARGE)
    first, second = read(path).jobs
    assert first.job.roles == (Role("p", 2, Request(gpus=1)),)
    assert first.run_us == 100 * 700_000  # 8 per GPU: midway between 4 and 12
    assert second.run_us == 10 * (3 * 800_000 + 900_000)  # 48 per GPU: four passes of 12
    assert [row.job.id for row in read(path, workload="w-2").jobs] == ["philly/w-2/bert-0"]
    with pytest.raises(Invalid, match="abacus"):
        read(path, gpu="abacus")


def test_muri_file_is_read(tmp_path: Path):
    (row,) = read(file(tmp_path, "x.csv", MURI)).jobs
    assert (row.job.submitted_us, row.run_us, row.workload) == (1_500_000, 927_475 * S, "bert")
    assert row.job.gpus == 16
    assert row.job.profile == Profile(0.5, source="measured")


def test_chronus_file_is_read_with_deadlines(tmp_path: Path):
    soft, best_effort = read(file(tmp_path, "x.csv", CHRONUS)).jobs
    assert soft.job.slo == Slo(deadline_us=(100 + 159) * S)
    assert soft.job.tenant == "vc_a"
    assert best_effort.job.slo is None
    assert (best_effort.job.gpus, best_effort.job.tasks) == (0, 1)


def test_jsonl_file_is_read(tmp_path: Path):
    rows = by_id(read(file(tmp_path, "x.jsonl", JSONL)))
    assert rows["a"] == TraceJob(Job("a", (Role("task", 1, Request(gpus=1)),), 2 * S), 60 * S, "succeeded", "W")
    assert rows["b"].outcome == "failed"


def test_example_trace_survives_a_round_trip(tmp_path: Path, repository: Path):
    sample = read(repository / "examples" / "sample.jsonl")
    assert 50 <= len(sample.jobs) <= 80
    requests = [role.request for row in sample.jobs for role in row.job.roles]
    assert len({id(request) for request in requests}) == len(set(requests))
    write_jsonl(tmp_path / "again.jsonl", sample.jobs)
    assert read(tmp_path / "again.jsonl") == sample
    pytest.importorskip("pyarrow")
    write_parquet(tmp_path / "again.parquet", sample.jobs)
    assert read(tmp_path / "again.parquet").jobs == sample.jobs


def test_example_trace_fits_its_cluster(repository: Path):
    (cluster, _), sample = load_cluster("2x4"), read(repository / "examples" / "sample.jsonl")
    node = cluster.nodes[0]
    for row in sample.jobs:
        assert row.job.gpus <= cluster.gpus
        for role in row.job.roles:
            assert role.request.gpus <= len(node.cards)
            assert role.request.cpu_milli <= node.cpu_milli
            assert role.request.memory_bytes <= node.memory_bytes
        assert row.job.cpu_milli <= 2 * node.cpu_milli
    assert any(row.job.gpus == 0 for row in sample.jobs)
    assert any(row.job.slo and row.job.slo.deadline_us for row in sample.jobs)


def test_every_reader_is_listed_with_a_summary():
    described = registry.describe("reader")
    assert [reader.name for reader in described] == [
        "chronus", "gavel", "jsonl", "muri", "openb", "parquet", "philly", "sia", "swf", "swf-csv",
    ]  # fmt: skip
    assert all(reader.summary for reader in described)


def test_cluster_specs_and_files_are_read_or_refused(tmp_path: Path, repository: Path):
    assert load_cluster("4x8")[0].gpus == 32
    cluster, windows = load_cluster(str(repository / "examples" / "cluster.toml"))
    assert (len(cluster.nodes), cluster.gpus, len(windows)) == (7, 27, 1)
    path = file(tmp_path, "c.json", '{"nodes": [{"id": "a", "gpus": 2}]}')
    assert load_cluster(str(path))[0].gpus == 2
    for name, text, message in (
        ("c.json", "{", "is not JSON"),
        ("c.json", "[]", "expected named fields"),
        ("c.toml", "= 3", "is not TOML"),
        ("c.csv", "a,b\n", "no openb node list"),
        ("c.xml", "<a/>", "no ending we know"),
    ):
        with pytest.raises(Invalid, match=message):
            load_cluster(str(file(tmp_path, name, text)))
    for text in ("none.toml", "0x8", "x", "", "-1x2"):
        with pytest.raises(Invalid):
            load_cluster(text)


def test_pair_table_gives_slowdowns_and_rates(tmp_path: Path):
    path = file(tmp_path, "t.json", json.dumps(THROUGHPUTS))
    pairs = load_pairs(path, default_ratio=0.5)
    app = "A (batch size 1)"
    assert pairs.slowdown(app, app) == 0.75
    assert pairs.slowdown(app, "B") == 0.0
    assert pairs.slowdown(app, "C") is None
    assert pairs.rate(app, []) == 1.0
    assert pairs.rate(app, [app, app]) == pytest.approx(0.75**2)
    assert pairs.rate(app, ["B"]) == 0.0
    assert pairs.rate("B", ["B"]) == 1.0  # measured faster beside itself than alone, which is noise
    assert pairs.rate(app, ["C", app]) == pytest.approx(0.5 * 0.75)
    assert PairTable().slowdown("x", "y") is None
    with pytest.raises(Invalid, match="there are v100"):
        load_pairs(path, "h100")
    for text in ("[]", "{", '{"v100": {"x": {}}}', '{"v100": 3}'):
        with pytest.raises(Invalid):
            load_pairs(file(tmp_path, "bad.json", text))
    with pytest.raises(Invalid):
        PairTable(default_ratio=0)


@pytest.mark.parametrize(
    ("path", "format", "jobs", "skipped"),
    [
        ("swf-backfill/KTH-SP2-raw.swf.gz", "swf", 28481, 8),
        ("swf-backfill/KTH-SP2_jobs_and_reference_waits.csv.gz", "swf-csv", 28481, 0),
        ("philly-jobs/philly.csv.gz", "philly", 82247, 0),
        ("alibaba-openb-2023/openb_pod_list_default.csv.gz", "openb", 8152, 0),
        ("alibaba-openb-2023/openb_pod_list_gpuspec20.csv.gz", "openb", 8152, 0),
        ("alibaba-openb-2023/openb_pod_list_multigpu20.csv.gz", "openb", 8324, 0),
        ("gavel-throughputs/gavel_traces.csv.gz", "gavel", 15551, 0),
        ("gavel-throughputs/shockwave_traces.csv.gz", "gavel", 2600, 0),
        ("sia-pollux/pollux_workloads.csv.gz", "sia", 7680, 0),
        ("muri-traces/trace2.csv.gz", "muri", 5755, 0),
        ("chronus-philly-slo/trace_job_Philly_MIX2.csv.gz", "chronus", 30940, 0),
    ],
)
def test_public_traces_are_read_completely(shared_data: Path, path: str, format: str, jobs: int, skipped: int):  # noqa: A002
    trace = read(shared_data / path, skip_bad=True)
    assert (trace.format, len(trace.jobs), trace.skipped_count) == (format, jobs, skipped)
    requests = {id(role.request): role.request for row in trace.jobs for role in row.job.roles}
    assert len(requests) == len(set(requests.values())), "equal requests are one object"


def test_swf_and_csv_forms_of_a_log_agree(shared_data: Path):
    # The table has the requested processors, and jobs end at their estimate.
    spec = "swf:processors=requested,cut_at_estimate=true"
    raw = read(shared_data / "swf-backfill/KTH-SP2-raw.swf.gz", spec, skip_bad=True)
    joined = read(shared_data / "swf-backfill/KTH-SP2_jobs_and_reference_waits.csv.gz")
    assert [(row.job.submitted_us, row.run_us, row.job.gpus) for row in raw.jobs] == [
        (row.job.submitted_us, row.run_us, row.job.gpus) for row in joined.jobs
    ]


def test_public_node_list_and_throughputs_are_read(shared_data: Path):
    cluster, _ = load_cluster(str(shared_data / "alibaba-openb-2023/openb_node_list_gpu_node.csv.gz"))
    assert (len(cluster.nodes), cluster.gpus) == (1213, 6212)
    path = shared_data / "gavel-throughputs/simulation_throughputs.json.gz"
    pairs = load_pairs(path)
    assert len(pairs.ratios) == 26 * 26
    with gzip.open(shared_data / "gavel-throughputs/shockwave_traces.csv.gz", "rt") as source:
        workloads = {row["job_type"] for row in csv.DictReader(source)}
    assert all(0 < pairs.rate(own, [other]) <= 1 for own in workloads for other in workloads)
