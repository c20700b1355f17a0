import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, need, type Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { toast, toastError } from "../../ui/Toast";
import type { Row } from "./rows";
import { text } from "./texts";

export type Action = "cancel" | "hold" | "release" | "change";
type Change = Schemas["ChangeRequest"];
interface Asked {
  action: Action;
  row: Row;
  change?: Change;
}

/** Does it, says what came of it, and has the queue read again. */
export function useActions(onDone: () => void) {
  const say = useTexts(text);
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: (_, { action, row }) => {
      toast(say(`done.${action}`, { name: row.name || row.id }));
      onDone();
    },
    onError: toastError,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["queue"] });
      void queries.invalidateQueries({ queryKey: ["queue-all"] });
    },
  });
}

function act({ action, row, change }: Asked) {
  const params = { path: { job: row.id } };
  switch (action) {
    case "cancel":
      return need(api.POST("/api/v1/jobs/{job}/cancel", { params, body: { cause: "" } }));
    case "hold":
      return need(api.POST("/api/v1/jobs/{job}/hold", { params }));
    case "release":
      return need(api.POST("/api/v1/jobs/{job}/release", { params }));
    case "change":
      return need(api.PATCH("/api/v1/jobs/{job}", { params, body: change ?? {} }));
  }
}

/** What makes sense for a job in this state. */
export function offered(row: Row): { canHold: boolean; canRelease: boolean } {
  return { canHold: row.state === "pending", canRelease: row.state === "held" };
}
