import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { check } from "./check";
import { FIRST_TEXT, pathOf, read } from "./document";
import type { Path, Schema } from "./schema";
import { usePlan } from "./usePlan";

const KEPT = ["draft"];

export function useSchema() {
  return useQuery({
    queryKey: ["schema", "job"],
    queryFn: async () => (await need(api.GET("/api/v1/schema/job"))) as unknown as Schema,
    staleTime: Infinity,
  });
}

/** The job file being written. It outlives a look at another page, and goes with the token. */
export function useDraft(schema: Schema | undefined) {
  const queries = useQueryClient();
  const [yaml, setYaml] = useState(() => queries.getQueryData<string>(KEPT) ?? FIRST_TEXT);
  const [params, setParams] = useState<Record<string, string>>({});
  const reading = useMemo(() => read(yaml), [yaml]);
  const problems = useMemo(() => (schema && reading.faults.length === 0 ? check(reading.data, schema) : []), [reading, schema]);
  const isSound = schema !== undefined && reading.faults.length === 0 && problems.length === 0;
  const filled = useMemo(() => Object.fromEntries(Object.entries(params).filter(([, value]) => value !== "")), [params]);
  const ask = useMemo(() => (isSound ? { file: reading.data, params: filled } : null), [isSound, reading, filled]);
  const plan = usePlan(ask);
  const send = useSend();
  const refusal = [send.error, plan.error].find((one) => one instanceof ApiError && one.field) as ApiError | undefined;
  const put = (next: string) => {
    queries.setQueryDefaults(KEPT, { gcTime: Infinity });
    queries.setQueryData(KEPT, next);
    if (send.error) send.reset();
    setYaml(next);
  };
  const refusedAt: Path | null = isSound && refusal ? pathOf(refusal.field) : null;
  return { yaml, put, params, setParams, reading, problems, isSound, ask, plan, send, refusal, refusedAt };
}

/** One submission, however often it is sent: the key changes when it has been answered. */
function useSend() {
  const queries = useQueryClient();
  const key = useRef(newKey());
  return useMutation({
    mutationFn: (ask: object) =>
      need(api.POST("/api/v1/jobs", { body: ask as never, params: { header: { "Idempotency-Key": key.current } } })),
    onSettled: () => {
      key.current = newKey();
    },
    onSuccess: () => Promise.all(["queue", "jobs", "cluster", "whatif"].map((topic) => queries.invalidateQueries({ queryKey: [topic] }))),
  });
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
}
