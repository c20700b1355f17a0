import type { components } from "./schema";

type ErrorView = components["schemas"]["ErrorView"];

/** An error response of the service, with its message. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string;
  readonly cure: string;
  readonly details: ErrorView | null;

  constructor(status: number, details: ErrorView | null) {
    super(details?.message ?? `HTTP ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = details?.code ?? "http_error";
    this.field = details?.field ?? "";
    this.cure = details?.cure ?? "";
    this.details = details;
  }
}

/** Returns the error in a response body if it has the service's error format. */
export function errorInBody(body: unknown): ErrorView | null {
  const error = (body as { error?: ErrorView } | null | undefined)?.error;
  return error && typeof error.message === "string" ? error : null;
}
