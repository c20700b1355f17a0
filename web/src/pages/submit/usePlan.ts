import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import type { Json } from "./schema";

/** Forecast of a submission: when and where the job would start, and which jobs it would delay. */
export type Plan = Schemas["WhatIfView"];
export interface Submission {
  file: Record<string, Json>;
  params: Record<string, string>;
}

const TYPING_PAUSE_MS = 500;
const REFETCH_MS = 10_000;

/**
 * Forecast for the job if it were submitted now. Fetched when typing pauses, and then every 10 s, because the queue changes.
 * `isSettled` is false while `data` is the forecast of an earlier text.
 */
export function usePlan(submission: Submission | null) {
  const settled = useDebounced(submission ? JSON.stringify(submission) : "");
  const isSettled = settled === (submission ? JSON.stringify(submission) : "");
  const plan = useQuery({
    queryKey: ["whatif", settled],
    queryFn: () => need(api.POST("/api/v1/whatif", { body: JSON.parse(settled) })),
    enabled: settled !== "",
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.error ? false : REFETCH_MS),
    retry: false,
  });
  return { ...plan, isSettled: isSettled && !plan.isPlaceholderData };
}

/** The value as it was when it last stayed the same for `TYPING_PAUSE_MS`. */
function useDebounced(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
