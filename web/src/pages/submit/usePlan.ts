import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import type { Json } from "./schema";

export type Plan = Schemas["WhatIfView"];
export interface Ask {
  file: Record<string, Json>;
  params: Record<string, string>;
}

const PAUSE_MS = 500;
const RENEW_MS = 10_000;

/** What the job would meet if it were sent now. Asked when typing pauses, and again as the queue moves on. */
export function usePlan(ask: Ask | null) {
  const settled = usePause(ask ? JSON.stringify(ask) : "");
  const isSettled = settled === (ask ? JSON.stringify(ask) : "");
  const plan = useQuery({
    queryKey: ["whatif", settled],
    queryFn: () => need(api.POST("/api/v1/whatif", { body: JSON.parse(settled) })),
    enabled: settled !== "",
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.error ? false : RENEW_MS),
    retry: false,
  });
  return { ...plan, isSettled: isSettled && !plan.isPlaceholderData };
}

function usePause(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
