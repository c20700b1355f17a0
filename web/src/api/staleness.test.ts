import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { JobEvent } from "./live";
import { Staleness } from "./staleness";

const event = (job: string): JobEvent => ({
  id: 1, job, name: "", at_s: 0, kind: "started", state: "running", attempt: 1, cause: "",
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a burst of events is told once a topic, then again after a while", () => {
  const told: string[] = [];
  const stale = new Staleness((key) => told.push(key.join("/")));
  for (let i = 0; i < 100; i++) stale.jobs([event("a")]);
  vi.advanceTimersByTime(0);
  expect(told.filter((one) => one === "queue")).toHaveLength(1);
  expect(told).toContain("job/a");
  stale.jobs([event("a")]);
  vi.advanceTimersByTime(100);
  expect(told.filter((one) => one === "queue")).toHaveLength(1);
  vi.advanceTimersByTime(3000);
  expect(told.filter((one) => one === "queue")).toHaveLength(2);
});

test("nothing is told after it was stopped", () => {
  const told: string[] = [];
  const stale = new Staleness((key) => told.push(key.join("/")));
  stale.jobs([event("a")]);
  stale.stop();
  vi.advanceTimersByTime(10_000);
  expect(told).toEqual([]);
});
