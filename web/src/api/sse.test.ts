import { expect, test } from "vitest";
import { Messages } from "./sse";

test("a message that comes in pieces is handed on once, whole", () => {
  const messages = new Messages();
  expect(messages.take("id: 7\nevent: job\nda")).toEqual([]);
  expect(messages.take('ta: {"a":1}\n')).toEqual([]);
  expect(messages.take("\n")).toEqual([{ id: "7", event: "job", data: '{"a":1}' }]);
});

test("signs of life are no messages", () => {
  expect(new Messages().take(": still here\n\n: still here\n\n")).toEqual([]);
});

test("several messages at once stay in order", () => {
  const found = new Messages().take("data: a\n\ndata: b\n\nid: 3\ndata: c\ndata: d\n\n");
  expect(found.map((one) => one.data)).toEqual(["a", "b", "c\nd"]);
});
