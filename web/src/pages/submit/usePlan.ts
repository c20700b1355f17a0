import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import type { Json } from "./schema";

export type Plan = Schemas["WhatIfView"];
export interface Submission {
  file: Record<string, Json>;
  params: Record<string, string>;
}

const PAUSE_MS = 500;
const REFETCH_MS = 10_000;

/** Forecast for the job if it were submitted now. Fetched when typing pauses, and again while the queue changes. */
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

function useDebounced(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
