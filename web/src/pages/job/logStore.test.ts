import { expect, test } from "vitest";
import { LogStore, MOST_LINES } from "./logStore";

const texts = (store: LogStore) => store.lines.map((line) => line.spans.map((span) => span.text).join(""));

test("tasks that write at once keep their lines whole", () => {
  const store = new LogStore((tell) => tell());
  store.add(0, 0, "a1 ");
  store.add(1, 0, "b1 \nb2\n");
  store.add(0, 0, "end\na2\n");
  expect(texts(store)).toEqual(["a1 end", "b1 ", "b2", "a2"]);
});

test("listeners are told once for many parts", () => {
  let tell = () => {};
  let told = 0;
  const store = new LogStore((later) => (tell = later));
  store.subscribe(() => told++);
  for (let n = 0; n < 100; n++) store.add(0, 0, `${n}\n`);
  tell();
  expect(told).toBe(1);
});

test("the oldest lines go when there are too many", () => {
  const store = new LogStore((tell) => tell());
  store.add(0, 0, "x\n".repeat(MOST_LINES));
  store.add(0, 0, "y\n".repeat(MOST_LINES / 5));
  expect(store.lines.length).toBe(MOST_LINES);
  expect(store.dropped).toBe(MOST_LINES / 5);
});
