"""Invalid trace files and invalid lines."""

import gzip
import sys
from pathlib import Path

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.sim.traces import BadLine, read
from tests.sim.trace_samples import (
    CHRONUS,
    JSONL,
    MURI,
    NEVER_RAN,
    OPENB,
    PHILLY,
    SWF,
    file,
)


def test_parquet_without_pyarrow_is_refused_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1....PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Invalid, match=r"gpusquad\[traces\]"):
        read(path)


def test_invalid_parquet_file_is_refused(tmp_path: Path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1....PAR1")
    with pytest.raises(Invalid, match="not a Parquet file"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "bad", "line", "message"),
    [
        ("x.swf", SWF, NEVER_RAN, 7, "never ran"),
        ("x.swf", SWF, "5 1 2\n", 7, "3 columns"),
        ("x.swf", SWF, NEVER_RAN.replace("  6 ", " six"), 7, "never ran"),
        ("x.swf", SWF, SWF.splitlines()[3].replace("97", "xx") + "\n", 7, "'xx' is not a number"),
        ("x.swf", SWF, SWF.splitlines()[3].replace("97", "nan") + "\n", 7, "'nan' is not a number"),
        ("x.swf", SWF, SWF.splitlines()[3] + "\n", 7, "'1' is there already"),
        ("x.csv", PHILLY, "yesterday,1,1,1,vc\n", 6, "'yesterday' is not a date"),
        ("x.csv", PHILLY, "2017-10-09 07:01:55,-1,1,1,vc\n", 6, "duration"),
        ("x.csv", PHILLY, "2017-10-09 07:01:55,1,0,1,vc\n", 6, "num_gpus"),
        ("x.csv", PHILLY, "2017-10-09 07:01:55,1\n", 6, "2 columns where the header has 5"),
        ("x.csv", OPENB, "d,1,1,2,500,,,,1,2,1\n", 5, "a share is of one"),
        ("x.csv", OPENB, "d,1,1,1,1001,,,,1,2,1\n", 5, "1001"),
        ("x.csv", OPENB, "d,1,1,1,500,,,,5,2,4\n", 5, "before the start"),
        ("x.csv", MURI, "1,1.5,0,1,m,1,1,1,1,1,1,1,0\n", 3, "num_gpu"),
        ("x.csv", CHRONUS, "2,v,1,1,1,m,inf,1,1,1,0,soft\n", 4, "duration"),
        ("x.jsonl", JSONL, '{"id": "c"\n', 4, "not JSON"),
        ("x.jsonl", JSONL, '{"id": "c", "gpus": 1}\n', 4, "run: is missing"),
        ("x.jsonl", JSONL, '{"id": "c", "gpsu": 1, "run": 1}\n', 4, "did you mean 'gpus'"),
        ("x.jsonl", JSONL, '{"id": "c", "gpus": NaN, "run": 1}\n', 4, "finite"),
        ("x.jsonl", JSONL, "[" * 100_000 + "\n", 4, "line"),
        ("x.jsonl", JSONL, "[]\n", 4, "expected a job"),
    ],
)
def test_bad_line_is_reported_or_skipped(tmp_path: Path, name: str, text: str, bad: str, line: int, message: str):
    path = file(tmp_path, name, text + bad)
    with pytest.raises(BadLine) as caught:
        read(path)
    assert (caught.value.name, caught.value.line) == (name, line)
    assert message in str(caught.value)
    trace = read(path, skip_bad=True)
    assert trace.skipped_count == 1
    assert f"line {line}: " in trace.skipped[0]
    assert len(trace.jobs) == len(read(file(tmp_path, name, text)).jobs)


def test_many_bad_lines_are_counted_and_partly_listed(tmp_path: Path):
    trace = read(file(tmp_path, "x.swf", SWF + "bad\n" * 1000), skip_bad=True)
    assert trace.skipped_count == 1000
    assert len(trace.skipped) < 100


def test_files_that_are_no_traces_are_refused(tmp_path: Path):
    with pytest.raises(Invalid, match="there is no file"):
        read(tmp_path / "none.swf")
    with pytest.raises(Invalid, match="cannot read"):
        read(tmp_path)
    with pytest.raises(Invalid, match="cannot tell the format"):
        read(file(tmp_path, "empty", ""))
    with pytest.raises(Invalid, match="one of chronus"):
        read(file(tmp_path, "x.csv", "a,b,c\n1,2,3\n"))
    with pytest.raises(Invalid, match="no job"):
        read(file(tmp_path, "x.swf", "; nothing\n"))
    with pytest.raises(Invalid, match=r"no job.*1 bad lines"):
        read(file(tmp_path, "x.swf", "1 2 3\n"), skip_bad=True)
    with pytest.raises(Invalid, match="no column duration"):
        read(file(tmp_path, "x.csv", "timestamp,num_gpus,cluster\n"), "philly")
    with pytest.raises(Invalid, match="reader 'nope' does not exist"):
        read(file(tmp_path, "x.csv", PHILLY), "nope")
    broken = tmp_path / "broken.swf.gz"
    broken.write_bytes(gzip.compress(SWF.encode())[:-12])
    with pytest.raises(Invalid, match="cannot read"):
        read(broken)


def test_compressed_files_and_unusual_encodings_are_read(tmp_path: Path):
    packed = tmp_path / "x"
    packed.write_bytes(gzip.compress(SWF.encode()))
    assert len(read(packed).jobs) == 3
    unusual = tmp_path / "y.swf"
    unusual.write_bytes(b"\xef\xbb\xbf; Acknowledge: \xe9\xff\r\n" + SWF.replace("\n", "\r\n").encode())
    assert len(read(unusual).jobs) == 3


def test_long_file_is_read_completely(tmp_path: Path):
    """The part from which the format is detected ends in the middle of a line."""
    line = SWF.splitlines()[3]
    text = "".join(line.replace("    1 ", f"{number:5} ", 1) + "\n" for number in range(5000))
    trace = read(file(tmp_path, "x.swf", text))
    assert [row.job.id for row in trace.jobs] == [str(number) for number in range(5000)]
    with pytest.raises(BadLine, match="line 5001"):
        read(file(tmp_path, "x.swf", text + "bad\n"))
