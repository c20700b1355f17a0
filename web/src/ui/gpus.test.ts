import { expect, test } from "vitest";
import { gpusInFull, gpusInShort } from "./gpus";

const GIB = 2 ** 30;
const share = (sm: number | null, memory: number | string | null, isolation = "shared") => ({ sm, memory, isolation });

test.each([
  [{ gpus: 10_000, share: null }, "10,000", "10,000"],
  [{ gpus: 1, share: share(0.4, 8 * GIB) }, "40%", "40% SM · 8 GiB"],
  [{ gpus: 2, share: share(null, 10 * GIB) }, "2 × 10 GiB", "2 × 10 GiB"],
  [{ gpus: 1, share: share(null, "30%", "isolated") }, "30%", "30% VRAM · isolated"],
  [{ gpus: 1, share: share(0.125, null) }, "12.5%", "12.5% SM"],
])("whole cards are counted, shares are shown with their size", (job, short, long) => {
  expect(gpusInShort(job)).toBe(short);
  expect(gpusInFull(job)).toBe(long);
});
