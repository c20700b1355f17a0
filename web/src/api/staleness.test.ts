import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { JobEvent } from "./live";
import { Staleness } from "./staleness";

const event = (job: string): JobEvent => ({
  id: 1, job, name: "", at_s: 0, kind: "started", state: "running", attempt: 1, cause: "",
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a burst of events invalidates each topic once, and again after its interval", () => {
  const invalidated: string[] = [];
  const stale = new Staleness((key) => invalidated.push(key.join("/")));
  for (let i = 0; i < 100; i++) stale.jobs([event("a")]);
  vi.advanceTimersByTime(0);
  expect(invalidated.filter((key) => key === "queue")).toHaveLength(1);
  expect(invalidated).toContain("job/a");
  stale.jobs([event("a")]);
  vi.advanceTimersByTime(100);
  expect(invalidated.filter((key) => key === "queue")).toHaveLength(1);
  vi.advanceTimersByTime(3000);
  expect(invalidated.filter((key) => key === "queue")).toHaveLength(2);
});

test("nothing is invalidated after a stop", () => {
  const invalidated: string[] = [];
  const stale = new Staleness((key) => invalidated.push(key.join("/")));
  stale.jobs([event("a")]);
  stale.stop();
  vi.advanceTimersByTime(10_000);
  expect(invalidated).toEqual([]);
});
