import { expect, test } from "vitest";
import { type Span, styled, Terminal } from "./ansi";

function run(...parts: string[]): Span[][] {
  const lines: Span[][] = [];
  const terminal = new Terminal((spans, isNew) => {
    if (isNew) lines.push(spans);
    else lines[lines.length - 1] = spans;
  });
  for (const part of parts) terminal.write(part);
  return lines;
}
const texts = (lines: Span[][]) => lines.map((line) => line.map((span) => span.text).join(""));

test("colours become spans, also across chunks", () => {
  const [line] = run("a \x1b[31mre", "d\x1b[0m b\n");
  expect(line!.map((span) => [span.text, span.style.color])).toEqual([["a ", undefined], ["red", 1], [" b", undefined]]);
  expect(run("\x1b[1;9", "2mx\x1b", "[m")[0]![0]!.style).toEqual({ isBold: true, color: 10 });
});

test("256 colours and true colour", () => {
  expect(styled({}, "38;5;208").color).toBe("#ff8700");
  expect(styled({}, "38;5;9").color).toBe(9);
  expect(styled({}, "48;2;1;2;300").background).toBe("#0102ff");
  expect(styled({ color: 3, isBold: true }, "")).toEqual({});
});

test("titles, links, cursors and other escapes are dropped, text stays", () => {
  expect(texts(run("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1b[10;10Hb\x1bc\x1b(B\x1b[?25l!\n"))).toEqual(["alinkb!"]);
  expect(texts(run("<img src=x onerror=alert(1)>\x00\x07\x9b\n"))).toEqual(["<img src=x onerror=alert(1)>"]);
});

test("a title that never ends does not swallow the log", () => {
  const [line] = texts(run(`\x1b]0;${"x".repeat(5000)}`, "\nnext\n")).slice(-1);
  expect(line).toBe("next");
});

test("text after a carriage return overwrites the line", () => {
  expect(texts(run("10%\r50%\r100%\n"))).toEqual(["100%"]);
  expect(texts(run("abcdef\rXY\n"))).toEqual(["XYcdef"]);
  expect(texts(run("abcdef\rX\x1b[K\n"))).toEqual(["X"]);
  expect(texts(run("a\r\nb\r\n"))).toEqual(["a", "b"]);
  expect(texts(run("1/3", "\r2/3", "\r3/3"))).toEqual(["3/3"]);
});

test("empty lines are kept, tabs become spaces", () => {
  expect(texts(run("a\n\nb\n"))).toEqual(["a", "", "b"]);
  expect(texts(run("a\tb"))).toEqual(["a       b"]);
});

test("a very long line is split", () => {
  expect(run("x".repeat(25_000)).length).toBe(3);
});
