import { describe, expect, it } from "vitest";
import { sloText } from "./slo";
import { text } from "./texts";

type Slo = Parameters<typeof sloText>[0];
const NONE: Slo = {
  deadline_s: null, latency_s: null, throughput: null, availability: null, deadline_met: null, attainment_ratio: null, unknown: false,
};

function shown(slo: Partial<Slo>): string {
  return sloText({ ...NONE, ...slo }, (name, values = {}) =>
    Object.entries(values).reduce((line, [key, value]) => line.replace(`{${key}}`, String(value)), text.en[name]));
}

describe("SLO of a job", () => {
  it("says whether the deadline was met", () => {
    expect(shown({ deadline_s: 0, deadline_met: false })).toMatch(/^deadline .*: missed$/);
    expect(shown({ deadline_s: 0, deadline_met: true })).toMatch(/^deadline .*: met$/);
    expect(shown({ deadline_s: 0 })).toMatch(/^deadline .*\d$/);
  });

  it("says how far targets are met, and when nobody reports it", () => {
    expect(shown({ latency_s: 0.02, availability: 0.999, attainment_ratio: 0.975 })).toBe("latency 20 ms · availability 99.9% · 98% met");
    expect(shown({ throughput: 100, unknown: true })).toBe("throughput 100/s · unknown: no report");
  });
});
