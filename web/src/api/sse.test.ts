import { expect, test } from "vitest";
import { Messages } from "./sse";

test("a message split over several chunks is returned once, complete", () => {
  const messages = new Messages();
  expect(messages.take("id: 7\nevent: job\nda")).toEqual([]);
  expect(messages.take('ta: {"a":1}\n')).toEqual([]);
  expect(messages.take("\n")).toEqual([{ id: "7", event: "job", data: '{"a":1}' }]);
});

test("heartbeats are not messages", () => {
  expect(new Messages().take(": still here\n\n: still here\n\n")).toEqual([]);
});

test("several messages in one chunk stay in order", () => {
  const found = new Messages().take("data: a\n\ndata: b\n\nid: 3\ndata: c\ndata: d\n\n");
  expect(found.map((message) => message.data)).toEqual(["a", "b", "c\nd"]);
});
