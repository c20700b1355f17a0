import { expect, test } from "vitest";
import { LogStore, MAX_LINES } from "./logStore";

const texts = (store: LogStore) => store.lines.map((line) => line.spans.map((span) => span.text).join(""));

test("lines of tasks that write at the same time are not mixed", () => {
  const store = new LogStore((notify) => notify());
  store.add(0, 0, "a1 ");
  store.add(1, 0, "b1 \nb2\n");
  store.add(0, 0, "end\na2\n");
  expect(texts(store)).toEqual(["a1 end", "b1 ", "b2", "a2"]);
});

test("listeners are notified once for many chunks", () => {
  let notify = () => {};
  let notified = 0;
  const store = new LogStore((callback) => (notify = callback));
  store.subscribe(() => notified++);
  for (let n = 0; n < 100; n++) store.add(0, 0, `${n}\n`);
  notify();
  expect(notified).toBe(1);
});

test("the oldest lines are dropped when there are too many", () => {
  const store = new LogStore((notify) => notify());
  store.add(0, 0, "x\n".repeat(MAX_LINES));
  store.add(0, 0, "y\n".repeat(MAX_LINES / 5));
  expect(store.lines.length).toBe(MAX_LINES);
  expect(store.dropped).toBe(MAX_LINES / 5);
});
