import type { components } from "./schema";

type Told = components["schemas"]["ErrorView"];

/** An answer of the service that is an error, in its own words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string;
  readonly cure: string;
  readonly told: Told | null;

  constructor(status: number, told: Told | null) {
    super(told?.message ?? `HTTP ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = told?.code ?? "http_error";
    this.field = told?.field ?? "";
    this.cure = told?.cure ?? "";
    this.told = told;
  }
}

/** The error of an answer's body, if it has the service's one shape. */
export function toldIn(body: unknown): Told | null {
  const error = (body as { error?: Told } | null | undefined)?.error;
  return error && typeof error.message === "string" ? error : null;
}
