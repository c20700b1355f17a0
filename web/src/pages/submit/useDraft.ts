import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { check } from "./check";
import { FIRST_TEXT, pathOf, read } from "./document";
import type { Path, Schema } from "./schema";
import { usePlan } from "./usePlan";

const DRAFT_KEY = ["draft"];

export function useSchema() {
  return useQuery({
    queryKey: ["schema", "job"],
    queryFn: async () => (await need(api.GET("/api/v1/schema/job"))) as unknown as Schema,
    staleTime: Infinity,
  });
}

/** The job file being edited. It is kept while other pages are shown and dropped at logout. */
export function useDraft(schema: Schema | undefined) {
  const queries = useQueryClient();
  const [yaml, setYaml] = useState(() => queries.getQueryData<string>(DRAFT_KEY) ?? FIRST_TEXT);
  const [params, setParams] = useState<Record<string, string>>({});
  const reading = useMemo(() => read(yaml), [yaml]);
  const problems = useMemo(() => (schema && reading.faults.length === 0 ? check(reading.data, schema) : []), [reading, schema]);
  const isValid = schema !== undefined && reading.faults.length === 0 && problems.length === 0;
  const filled = useMemo(() => Object.fromEntries(Object.entries(params).filter(([, value]) => value !== "")), [params]);
  const submission = useMemo(() => (isValid ? { file: reading.data, params: filled } : null), [isValid, reading, filled]);
  const plan = usePlan(submission);
  const send = useSend();
  const refusal = [send.error, plan.error].find((error) => error instanceof ApiError && error.field) as ApiError | undefined;
  const put = (next: string) => {
    queries.setQueryDefaults(DRAFT_KEY, { gcTime: Infinity });
    queries.setQueryData(DRAFT_KEY, next);
    if (send.error) send.reset();
    setYaml(next);
  };
  const refusedAt: Path | null = isValid && refusal ? pathOf(refusal.field) : null;
  return { yaml, put, params, setParams, reading, problems, isValid, submission, plan, send, refusal, refusedAt };
}

/** Sends a submission. The idempotency key stays the same until a response arrives, so repeats create no second job. */
function useSend() {
  const queries = useQueryClient();
  const key = useRef(newKey());
  return useMutation({
    mutationFn: (submission: object) =>
      need(api.POST("/api/v1/jobs", { body: submission as never, params: { header: { "Idempotency-Key": key.current } } })),
    onSettled: () => {
      key.current = newKey();
    },
    onSuccess: () => Promise.all(["queue", "jobs", "cluster", "whatif"].map((topic) => queries.invalidateQueries({ queryKey: [topic] }))),
  });
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
