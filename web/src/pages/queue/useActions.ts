import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, need, type Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { toast, toastError } from "../../ui/Toast";
import type { Row } from "./rows";
import { text } from "./texts";

export type Action = "cancel" | "hold" | "release" | "change";
type Change = Schemas["ChangeRequest"];
interface ActionRequest {
  action: Action;
  row: Row;
  change?: Change;
}

/** Runs an action, shows the result and refreshes the queue. */
export function useActions(onDone: () => void) {
  const t = useTexts(text);
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: (_, { action, row }) => {
      toast(t(`done.${action}`, { name: row.name || row.id }));
      onDone();
    },
    onError: toastError,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["queue"] });
      void queries.invalidateQueries({ queryKey: ["queue-all"] });
    },
  });
}

function act({ action, row, change }: ActionRequest) {
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

/** Actions that are possible in the state of the job. */
export function offered(row: Row): { canHold: boolean; canRelease: boolean } {
  return { canHold: row.state === "pending", canRelease: row.state === "held" };
}
